#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/gates/judge.h"
#include "tests/unit/gates/experiment.h"

namespace upgrade_gate::gates {
namespace {

using ::testing::HasSubstr;

constexpr const char* kCase = "1k-512-c1";

// 984 requests an arm in one round, as in three rounds of ten cases.
Experiment With(int baseline_failed, int candidate_failed) {
  Experiment e = MakeExperiment({kCase}, 1);
  e.plan.workload.cases[0].requests = 984;
  for (const auto& [arm, failed] :
       {std::pair{kBaseline, baseline_failed}, std::pair{kCandidate, candidate_failed}}) {
    auto& round = e.Round(kCase, arm, 0);
    round.planned = 984;
    round.counts.requests = 984;
    round.counts.by_kind = {{evidence::FailureKind::kEmptyOutput, failed}};
  }
  return e;
}

GateResult Judge(const Experiment& e, const plan::Gate& gate) {
  return JudgeGate(e.plan, gate, e.evidence.summary);
}

TEST(FailuresGate, DecidesTheWorkedCounts) {
  struct Row {
    double budget;
    int failed;
    Verdict verdict;
  };
  for (const Row& row : {Row{1, 4, Verdict::kPass}, Row{1, 5, Verdict::kInconclusive},
                         Row{1, 15, Verdict::kInconclusive}, Row{1, 16, Verdict::kFail},
                         Row{2, 12, Verdict::kPass}, Row{2, 13, Verdict::kInconclusive},
                         Row{2, 27, Verdict::kInconclusive}, Row{2, 28, Verdict::kFail}}) {
    const GateResult result = Judge(With(0, row.failed), Failures(row.budget));
    EXPECT_EQ(result.verdict, row.verdict) << row.budget << " % and " << row.failed;
  }
}

TEST(FailuresGate, GivesTheWorkedRatesAndBounds) {
  const Experiment e = With(6, 11);
  const GateResult baseline = Judge(e, Failures(2, kBaseline));
  EXPECT_NEAR(*baseline.estimate, 0.0061, 5e-5);
  EXPECT_NEAR(baseline.interval->upper, 0.0120, 5e-5);
  const GateResult candidate = Judge(e, Failures(2, kCandidate));
  EXPECT_NEAR(*candidate.estimate, 0.0112, 5e-5);
  EXPECT_NEAR(candidate.interval->upper, 0.0184, 5e-5);
  EXPECT_EQ(candidate.verdict, Verdict::kPass);
  EXPECT_DOUBLE_EQ(*candidate.margin, 0.02);
  EXPECT_THAT(candidate.message, HasSubstr("candidate: empty_output 11 of 984 sent requests "
                                           "(1.12 %), one-sided 95 % bounds [0.63 %, 1.84 %]"));
  std::string text;
  for (const auto& line : candidate.explanation) text += line + "\n";
  EXPECT_THAT(text, HasSubstr("baseline 6 of 984 (0.61 %); difference +0.51 pp"));
  EXPECT_THAT(text, HasSubstr("+1.27] pp (Newcombe); Fisher p 0.165 one-sided, 0.330 two-sided"));
}

TEST(FailuresGate, AnEmptyOutputRateOfFourPercentIsOverATwoPercentBudget) {
  const GateResult result = Judge(With(0, 40), Failures(2));
  EXPECT_EQ(result.verdict, Verdict::kFail);
  EXPECT_EQ(result.finding, Finding::kOverBudget);
  EXPECT_THAT(result.message, HasSubstr("40 of 984 sent requests (4.07 %)"));
  EXPECT_THAT(result.message, HasSubstr("budget 2 %: over the budget"));
}

TEST(FailuresGate, UndecidedSaysWhatWouldDecide) {
  const GateResult result = Judge(With(0, 11), Failures(1));
  EXPECT_EQ(result.finding, Finding::kUndecided);
  EXPECT_THAT(result.message, HasSubstr("of 984 requests up to 4 pass and 16 or more fail"));
  EXPECT_THAT(result.message, HasSubstr("times the rounds would resolve it"));
}

TEST(FailuresGate, CountsItsKindOrAny) {
  Experiment e = With(0, 0);
  e.Round(kCase, kCandidate, 0).counts.by_kind = {{evidence::FailureKind::kEmptyOutput, 20},
                                                  {evidence::FailureKind::kStalled, 20}};
  plan::Gate gate = Failures(2);
  EXPECT_EQ(Judge(e, gate).verdict, Verdict::kInconclusive);
  std::get<plan::FailuresGate>(gate.rule).kind.reset();
  const GateResult any = Judge(e, gate);
  EXPECT_EQ(any.verdict, Verdict::kFail);
  EXPECT_THAT(any.message, HasSubstr("failures of any kind 40 of 984"));
  std::get<plan::FailuresGate>(gate.rule).kind = evidence::FailureKind::kTransport;
  EXPECT_EQ(Judge(e, gate).verdict, Verdict::kPass);
}

TEST(FailuresGate, UsesTheConfidenceOfThePlan) {
  plan::Gate gate = Failures(2);
  const Experiment e = With(0, 12);
  EXPECT_EQ(Judge(e, gate).verdict, Verdict::kPass);
  std::get<plan::FailuresGate>(gate.rule).confidence = base::Percent{99};
  EXPECT_EQ(Judge(e, gate).verdict, Verdict::kInconclusive);
}

TEST(FailuresGate, WhatWasNotSentKeepsItFromPassingButNotFromFailing) {
  Experiment e = With(0, 0);
  auto& round = e.Round(kCase, kCandidate, 0);
  round.counts.requests = 900;
  round.stopped = evidence::StopReason::kGuard;
  const GateResult open = Judge(e, Failures(2));
  EXPECT_EQ(open.verdict, Verdict::kInconclusive);
  EXPECT_EQ(open.finding, Finding::kNotMeasured);
  EXPECT_THAT(open.message, HasSubstr("84 of 984 planned requests were not sent, the guard"));
  // The denominator is what was sent.
  round.counts.by_kind = {{evidence::FailureKind::kEmptyOutput, 90}};
  const GateResult fail = Judge(e, Failures(2));
  EXPECT_EQ(fail.verdict, Verdict::kFail);
  EXPECT_DOUBLE_EQ(*fail.estimate, 0.1);
}

TEST(FailuresGate, AMissingRoundOrArmIsNotMeasured) {
  Experiment e = MakeExperiment();
  e.At(kCase, kCandidate).rounds.pop_back();
  const GateResult gap = Judge(e, Failures(50));
  EXPECT_EQ(gap.verdict, Verdict::kInconclusive);
  EXPECT_EQ(gap.finding, Finding::kNotMeasured);
  e.summary().cases[0].arms.erase(kCandidate);
  const GateResult none = Judge(e, Failures(50));
  EXPECT_EQ(none.verdict, Verdict::kInconclusive);
  EXPECT_EQ(none.finding, Finding::kNotMeasured);
  EXPECT_FALSE(none.estimate.has_value());
  EXPECT_EQ(Judge(e, Failures(50, "nobody")).verdict, Verdict::kInconclusive);
}

TEST(FailuresGate, CountsTheSelectedCasesOfItsArmOnly) {
  Experiment e = MakeExperiment({"a", "b"});
  SetFailures(e, "a", kCandidate, 0, 8);
  SetFailures(e, "b", kBaseline, 0, 8);
  plan::Gate gate = Failures(50);
  EXPECT_DOUBLE_EQ(*Judge(e, gate).estimate, 8.0 / 48);
  gate.selection.case_name = "a";
  EXPECT_DOUBLE_EQ(*Judge(e, gate).estimate, 8.0 / 24);
  gate.selection.case_name = "b";
  EXPECT_DOUBLE_EQ(*Judge(e, gate).estimate, 0);
}

}  // namespace
}  // namespace upgrade_gate::gates
