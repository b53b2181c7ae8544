#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/gates/judge.h"
#include "tests/unit/gates/experiment.h"

namespace upgrade_gate::gates {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCase = "1k-512-c1";

GateResult Judge(const Experiment& e, const plan::Gate& gate) {
  return JudgeGate(e.plan, gate, e.evidence.summary);
}

std::string Joined(const GateResult& result) {
  std::string text;
  for (const auto& line : result.explanation) text += line + "\n";
  return text;
}

// 115.00 → 113.69, ratio 0.9886, three rounds.
struct Worked {
  double sd;
  double margin;
  Verdict verdict;
};

TEST(ThroughputGate, DecidesTheWorkedSmallLoss) {
  for (const Worked& row :
       {Worked{0.005, 1, Verdict::kInconclusive}, Worked{0.005, 2, Verdict::kPass},
        Worked{0.005, 3, Verdict::kPass}, Worked{0.0071, 1, Verdict::kInconclusive},
        Worked{0.0071, 2, Verdict::kInconclusive}, Worked{0.0071, 3, Verdict::kPass}}) {
    Experiment e = MakeExperiment();
    SetRatio(e, kCase, 0.9886, row.sd);
    const GateResult result = Judge(e, MaxLoss(kCase, row.margin));
    EXPECT_EQ(result.verdict, row.verdict) << row.sd << " " << row.margin << result.message;
    EXPECT_EQ(result.finding, row.verdict == Verdict::kPass ? Finding::kNone : Finding::kUndecided);
    EXPECT_NEAR(*result.margin, 1 - row.margin / 100, 1e-12);
  }
}

TEST(ThroughputGate, GivesTheWorkedInterval) {
  Experiment e = MakeExperiment();
  SetRatio(e, kCase, 0.9886, 0.005);
  const GateResult result = Judge(e, MaxLoss(kCase, 2));
  EXPECT_NEAR(*result.estimate, 0.9886, 1e-9);
  EXPECT_NEAR(result.interval->lower, 0.980, 5e-4);
  EXPECT_NEAR(result.interval->upper, 0.997, 5e-4);
  EXPECT_EQ(result.rounds, 3);
  EXPECT_EQ(result.boots, 1);
  ASSERT_EQ(result.cases.size(), 1U);
  EXPECT_NEAR(*result.cases[0].baseline, 115.0, 1e-9);
  EXPECT_NEAR(*result.cases[0].candidate, 113.689, 1e-9);

  SetRatio(e, kCase, 0.9886, 0.0071);
  const GateResult wide = Judge(e, MaxLoss(kCase, 2));
  EXPECT_NEAR(wide.interval->lower, 0.977, 5e-4);
  EXPECT_NEAR(wide.interval->upper, 1.0005, 1e-4);
}

TEST(ThroughputGate, FailsALossOutsideTheMargin) {
  Experiment e = MakeExperiment();
  SetRatio(e, kCase, 0.75, 0.004);
  e.plan.boot_noise.value = base::Percent{1};
  const GateResult result = Judge(e, MaxLoss(kCase, 3));
  EXPECT_EQ(result.verdict, Verdict::kFail);
  EXPECT_EQ(result.finding, Finding::kRegression);
  // 2.920·0.004/√3 = 0.00674 and 1.6449·√2·0.01 = 0.02326: half-width 0.02422.
  EXPECT_EQ(result.message,
            "1k-512-c1: output throughput 115.0 → 86.2 tok/s, candidate/baseline ratio 0.750 "
            "[0.732, 0.768] (90 % interval, 3 rounds, 1 boot an arm, boot noise 1 % assumed; "
            "higher is better), allowed loss 3 %: regression");
}

TEST(ThroughputGate, WidensTheIntervalByTheBootNoiseOfOneBoot) {
  Experiment e = MakeExperiment();
  SetRatio(e, kCase, 0.9886, 0.005);
  e.plan.boot_noise.value = base::Percent{1};
  const GateResult result = Judge(e, MaxLoss(kCase, 3));
  // √(0.00843² + 0.02326²) = 0.02474: [0.9644, 1.0134].
  EXPECT_EQ(result.verdict, Verdict::kInconclusive);
  EXPECT_NEAR(result.interval->lower, 0.9644, 1e-4);
  EXPECT_NEAR(result.interval->upper, 1.0134, 1e-4);
  EXPECT_THAT(result.message, HasSubstr("no number of rounds in one boot can resolve it"));
  EXPECT_THAT(Joined(result), HasSubstr("boot-to-boot noise assumed, not measured: b = 1 %"));
}

TEST(ThroughputGate, SaysHowManyRoundsWouldResolveIt) {
  Experiment e = MakeExperiment();
  // ln(0.9886/0.98) = 0.00874 and s = 0.0071: t(3)·s/√4 = 0.00835 is the first below.
  SetRatio(e, kCase, 0.9886, 0.0071);
  const GateResult result = Judge(e, MaxLoss(kCase, 2));
  EXPECT_EQ(result.finding, Finding::kUndecided);
  EXPECT_THAT(result.message, HasSubstr("about 4 rounds would resolve it at the noise seen"));
}

TEST(ThroughputGate, DemandsAGain) {
  Experiment e = MakeExperiment();
  SetRatio(e, kCase, 2.226, 0.0071);
  const GateResult gain = Judge(e, MinGain(kCase, 50));
  EXPECT_EQ(gain.verdict, Verdict::kPass) << gain.message;
  EXPECT_DOUBLE_EQ(*gain.margin, 1.5);
  // 2.226·exp(±2.920·0.0071/√3) = 2.226·exp(±0.01197)
  EXPECT_NEAR(gain.interval->lower, 2.1995, 1e-3);
  EXPECT_NEAR(gain.interval->upper, 2.2528, 1e-3);
  EXPECT_THAT(Joined(gain),
              HasSubstr("2.226 times the baseline, a change of +122.6 % of the baseline"));

  const GateResult missed = Judge(e, MinGain(kCase, 150));
  EXPECT_EQ(missed.verdict, Verdict::kFail);
  EXPECT_EQ(missed.finding, Finding::kGainMissed);
  EXPECT_DOUBLE_EQ(*missed.margin, 2.5);
  EXPECT_THAT(missed.message, HasSubstr("demanded gain 150 %: the demanded gain was not reached"));

  EXPECT_EQ(Judge(e, MinGain(kCase, 122.6)).verdict, Verdict::kInconclusive);
}

TEST(ThroughputGate, OneRoundIsNeverEnough) {
  Experiment e = MakeExperiment({kCase}, 1);
  SetThroughput(e, kCase, kCandidate, {1.0});
  const GateResult result = Judge(e, MaxLoss(kCase, 3));
  EXPECT_EQ(result.verdict, Verdict::kInconclusive);
  EXPECT_EQ(result.finding, Finding::kTooFewRounds);
  EXPECT_NEAR(*result.estimate, 0.01, 1e-12);
  EXPECT_FALSE(result.interval.has_value());
  EXPECT_EQ(result.rounds, 1);
}

TEST(ThroughputGate, AFailedRequestInEitherArmTakesTheGainAway) {
  for (const char* arm : {kBaseline, kCandidate}) {
    Experiment e = MakeExperiment();
    SetRatio(e, kCase, 2.226, 0.0071);
    SetFailures(e, kCase, arm, 1, 1);
    for (const auto& gate : {MinGain(kCase, 50), MaxLoss(kCase, 3)}) {
      const GateResult result = Judge(e, gate);
      EXPECT_EQ(result.verdict, Verdict::kInconclusive);
      EXPECT_EQ(result.finding, Finding::kFailuresInCase);
      EXPECT_FALSE(result.estimate.has_value());
      EXPECT_FALSE(result.interval.has_value());
      EXPECT_THAT(result.message, HasSubstr("†"));
      EXPECT_THAT(result.message, HasSubstr(std::string(arm) + " 1 of 24"));
    }
  }
}

TEST(ThroughputGate, OnFailuresAdvisoryJudgesALossOnTheObservedThroughput) {
  Experiment e = MakeExperiment();
  SetRatio(e, kCase, 0.9886, 0.0071);
  SetFailures(e, kCase, kCandidate, 2, 1);
  const GateResult pass = Judge(e, MaxLoss(kCase, 3, plan::OnFailures::kAdvisory));
  EXPECT_EQ(pass.verdict, Verdict::kPass);
  EXPECT_THAT(pass.message, AllOf(HasSubstr("115.0 → 113.7† tok/s"),
                                  HasSubstr("judged on the observed throughput")));
  SetRatio(e, kCase, 0.75, 0.0071);
  EXPECT_EQ(Judge(e, MaxLoss(kCase, 3, plan::OnFailures::kAdvisory)).verdict, Verdict::kFail);
  // A gain is never assigned, whatever the gate says.
  auto gain = MinGain(kCase, 0);
  std::get<plan::ThroughputGate>(gain.rule).on_failures = plan::OnFailures::kAdvisory;
  SetRatio(e, kCase, 2, 0.001);
  EXPECT_EQ(Judge(e, gain).finding, Finding::kFailuresInCase);
}

TEST(ThroughputGate, AbsoluteMinimumLooksAtTheCandidateAlone) {
  Experiment e = MakeExperiment();
  SetThroughput(e, kCase, kBaseline, {1, 2, 3});
  SetThroughput(e, kCase, kCandidate, {940, 950, 960});
  const GateResult pass = Judge(e, MinThroughput(kCase, 900));
  EXPECT_EQ(pass.verdict, Verdict::kPass) << pass.message;
  EXPECT_DOUBLE_EQ(*pass.margin, 900);
  EXPECT_NEAR(*pass.estimate, 950, 0.1);
  EXPECT_FALSE(pass.cases[0].baseline.has_value());
  EXPECT_THAT(pass.message, AllOf(HasSubstr("minimum 900 tok/s: pass"), Not(HasSubstr("→"))));
  const GateResult fail = Judge(e, MinThroughput(kCase, 1000));
  EXPECT_EQ(fail.verdict, Verdict::kFail);
  EXPECT_EQ(fail.finding, Finding::kOverThreshold);
  EXPECT_EQ(Judge(e, MinThroughput(kCase, 950)).verdict, Verdict::kInconclusive);
}

TEST(ThroughputGate, AbsoluteMinimumOfADaggerCaseIsJudgedAndSaysSo) {
  Experiment e = MakeExperiment();
  SetThroughput(e, kCase, kCandidate, {940, 950, 960});
  SetFailures(e, kCase, kCandidate, 0, 2);
  const GateResult result = Judge(e, MinThroughput(kCase, 900));
  EXPECT_EQ(result.verdict, Verdict::kPass);
  EXPECT_THAT(result.message, HasSubstr("† requests failed (candidate 2 of 24)"));
}

TEST(ThroughputGate, ACandidateThatDeliversNothingFails) {
  Experiment e = MakeExperiment();
  SetThroughput(e, kCase, kCandidate, {0, 0, 0});
  for (int i = 0; i < 3; ++i) SetFailures(e, kCase, kCandidate, i, 8);
  EXPECT_EQ(Judge(e, MinThroughput(kCase, 900)).verdict, Verdict::kFail);
  EXPECT_EQ(Judge(e, MaxLoss(kCase, 3, plan::OnFailures::kAdvisory)).verdict, Verdict::kFail);
  EXPECT_EQ(Judge(e, MaxLoss(kCase, 3)).finding, Finding::kFailuresInCase);
}

TEST(ThroughputGate, AMissingRoundOrArmOrCaseIsNotMeasured) {
  for (const char* arm : {kBaseline, kCandidate}) {
    for (int index : {0, 1, 2}) {
      Experiment e = MakeExperiment();
      SetRatio(e, kCase, 2, 0.001);
      auto& rounds = e.At(kCase, arm).rounds;
      rounds.erase(rounds.begin() + index);
      const GateResult result = Judge(e, MaxLoss(kCase, 3));
      EXPECT_EQ(result.verdict, Verdict::kInconclusive);
      EXPECT_EQ(result.finding, Finding::kNotMeasured);
      EXPECT_THAT(result.message,
                  HasSubstr("round " + std::to_string(index + 1) + " of 3 of boot step"));
      EXPECT_EQ(result.rounds, 2);
    }
    Experiment e = MakeExperiment();
    e.summary().cases[0].arms.erase(arm);
    EXPECT_EQ(Judge(e, MaxLoss(kCase, 3)).finding, Finding::kNotMeasured);
  }
  Experiment e = MakeExperiment();
  e.summary().cases.clear();
  EXPECT_EQ(Judge(e, MaxLoss(kCase, 3)).finding, Finding::kNotMeasured);
  EXPECT_EQ(Judge(e, MinThroughput(kCase, 1)).finding, Finding::kNotMeasured);
  EXPECT_EQ(Judge(e, MaxLoss("another", 3)).verdict, Verdict::kInconclusive);
}

TEST(ThroughputGate, ARoundThatSentTooLittleIsNotMeasured) {
  Experiment e = MakeExperiment();
  SetRatio(e, kCase, 2, 0.001);
  e.Round(kCase, kCandidate, 2).counts.requests = 5;
  e.Round(kCase, kCandidate, 2).stopped = evidence::StopReason::kServiceLost;
  const GateResult result = Judge(e, MaxLoss(kCase, 3));
  EXPECT_EQ(result.finding, Finding::kNotMeasured);
  EXPECT_THAT(result.message, HasSubstr("sent 5 of 8 planned requests (service_lost)"));
}

TEST(ThroughputGate, ACaseThatTheGuardStoppedMayFailAndNeverPasses) {
  Experiment e = MakeExperiment();
  SetRatio(e, kCase, 2, 0.001);
  SetFailures(e, kCase, kCandidate, 2, 3);
  e.Round(kCase, kCandidate, 2).counts.requests = 5;
  e.Round(kCase, kCandidate, 2).stopped = evidence::StopReason::kGuard;
  const GateResult strict = Judge(e, MaxLoss(kCase, 3));
  EXPECT_EQ(strict.finding, Finding::kFailuresInCase);
  const GateResult open = Judge(e, MaxLoss(kCase, 3, plan::OnFailures::kAdvisory));
  EXPECT_EQ(open.verdict, Verdict::kInconclusive);
  EXPECT_EQ(open.finding, Finding::kNotMeasured);
  EXPECT_THAT(open.message, HasSubstr("the guard kept planned requests from being sent"));
  SetRatio(e, kCase, 0.5, 0.001);
  EXPECT_EQ(Judge(e, MaxLoss(kCase, 3, plan::OnFailures::kAdvisory)).verdict, Verdict::kFail);
}

TEST(ThroughputGate, RoundsThatNobodyAskedForAreNotPooled) {
  Experiment e = MakeExperiment();
  SetRatio(e, kCase, 2, 0.001);
  auto extra = e.Round(kCase, kCandidate, 2);
  extra.round = 4;
  e.At(kCase, kCandidate).rounds.push_back(extra);
  EXPECT_EQ(Judge(e, MaxLoss(kCase, 3)).finding, Finding::kNotMeasured);
}

TEST(ThroughputGate, TwoBootsAnArmAreJudgedByBootMeans) {
  Experiment e = MakeExperiment();
  const int baseline = AddBoot(e, kBaseline, 3);
  const int candidate = AddBoot(e, kCandidate, 3);
  SetThroughput(e, kCase, kBaseline, {100, 100, 100}, 1);
  SetThroughput(e, kCase, kBaseline, {101, 101, 101}, baseline);
  SetThroughput(e, kCase, kCandidate, {90, 90, 90}, 2);
  SetThroughput(e, kCase, kCandidate, {91, 91, 91}, candidate);
  e.plan.boot_noise.value = base::Percent{50};
  const GateResult result = Judge(e, MaxLoss(kCase, 3));
  // √(90·91/(100·101)) = 0.90050; the assumed 50 % must not matter now.
  EXPECT_NEAR(*result.estimate, 0.90050, 1e-5);
  EXPECT_EQ(result.verdict, Verdict::kFail) << result.message;
  EXPECT_EQ(result.boots, 2);
  EXPECT_EQ(result.rounds, 6);
  EXPECT_THAT(result.message, HasSubstr("6 rounds, 2 boots an arm, boot noise measured"));
  EXPECT_THAT(result.message, Not(HasSubstr("assumed")));
}

TEST(ThroughputGate, ABracketAveragesTheBaselineAndIsVoidIfItDrifted) {
  Experiment e = MakeExperiment();
  e.plan.boot_noise.value = base::Percent{1};
  const int after = AddBoot(e, kBaseline, 2);
  SetThroughput(e, kCase, kCandidate, {90, 90, 90});
  SetThroughput(e, kCase, kBaseline, {100, 100, 100}, 1);
  SetThroughput(e, kCase, kBaseline, {102, 102}, after);
  const GateResult result = Judge(e, MaxLoss(kCase, 3));
  EXPECT_EQ(result.verdict, Verdict::kFail) << result.message;
  EXPECT_THAT(result.message, HasSubstr("3 rounds, 1 candidate and 2 baseline boots"));
  // The means of both boots where both have the round: ln(90/101), twice, and ln(90/100).
  EXPECT_NEAR(*result.estimate, std::exp((2 * std::log(90.0 / 101) + std::log(0.9)) / 3), 1e-9);
  // 2·√2·1 % = 2.83 %; ln 1.03 = 2.96 %.
  SetThroughput(e, kCase, kBaseline, {103, 103}, after);
  const GateResult drifted = Judge(e, MaxLoss(kCase, 3));
  EXPECT_EQ(drifted.verdict, Verdict::kInconclusive);
  EXPECT_EQ(drifted.finding, Finding::kDrift);
  EXPECT_THAT(drifted.message, HasSubstr("the baseline moved by +3.0 % from boot 1 to boot 3"));
  EXPECT_FALSE(drifted.estimate.has_value());
}

TEST(ThroughputGate, AShapeIsAsGoodAsItsWorstCase) {
  Experiment e = MakeExperiment({"a", "b", "c", "d"});
  SetRatio(e, "a", 1.0, 0.001);
  SetRatio(e, "b", 0.9886, 0.0071);  // inconclusive at 2 %
  SetRatio(e, "c", 0.9, 0.001);      // fails
  SetRatio(e, "d", 0.5, 0.001);      // fails too, but is not the first
  plan::Gate gate = MaxLoss("a", 2);
  gate.selection = {.case_name = {}, .shape = "single_stream"};
  const GateResult result = Judge(e, gate);
  EXPECT_EQ(result.verdict, Verdict::kFail);
  EXPECT_NEAR(*result.estimate, 0.9, 1e-9);
  ASSERT_EQ(result.cases.size(), 4U);
  EXPECT_EQ(result.cases[0].verdict, Verdict::kPass);
  EXPECT_EQ(result.cases[1].verdict, Verdict::kInconclusive);
  EXPECT_THAT(result.message, AllOf(HasSubstr("shape single_stream, 4 cases (1 pass, 2 fail, 1 "
                                              "inconclusive); c: "),
                                    Not(HasSubstr("\n"))));
  SetRatio(e, "c", 1.0, 0.001);
  SetRatio(e, "d", 1.0, 0.001);
  EXPECT_EQ(Judge(e, gate).verdict, Verdict::kInconclusive);
  SetRatio(e, "b", 1.0, 0.001);
  EXPECT_EQ(Judge(e, gate).verdict, Verdict::kPass);
}

TEST(ThroughputGate, ABigChangeWithUnequalOutputIsNotCalledAGain) {
  Experiment e = MakeExperiment();
  SetRatio(e, kCase, 2, 0.001);
  e.Round(kCase, kCandidate, 1).output_tokens -= 1;
  const GateResult result = Judge(e, MinGain(kCase, 50));
  EXPECT_EQ(result.verdict, Verdict::kInconclusive);
  EXPECT_EQ(result.finding, Finding::kOutputDiffers);
  SetRatio(e, kCase, 1.2, 0.001);
  EXPECT_EQ(Judge(e, MinGain(kCase, 10)).verdict, Verdict::kPass);
}

TEST(ThroughputGate, ExplainsTheNumbersTheFormulaAndTheNextStep) {
  Experiment e = MakeExperiment();
  SetRatio(e, kCase, 2, 0.01);
  SetFailures(e, kCase, kBaseline, 1, 2);
  const std::string text = Joined(Judge(e, MaxLoss(kCase, 3, plan::OnFailures::kAdvisory)));
  // ln 2 = 0.69315
  EXPECT_THAT(text, HasSubstr("by round: +0.68315, +0.69315, +0.70315; mean +0.69315"));
  EXPECT_THAT(text, HasSubstr("n = 3, s = 0.01000 (of ln), t(0.95) = 2.920, t·s/√n = 0.01686"));
  EXPECT_THAT(text, HasSubstr("allowed loss 3 % of the baseline, a ratio of 0.97"));
  EXPECT_THAT(text, HasSubstr("suspect first; checked: baseline 11264 output tokens of 12288 asked "
                              "for, 2 of 24 requests failed"));
  EXPECT_THAT(text, HasSubstr("empty_output 2; their raw streams: "
                              "rounds/1k-512-c1/01-baseline-r2/streams/"));
  EXPECT_THAT(text, HasSubstr("next: "));
}

TEST(ThroughputGate, HostileNamesAreShownVisibly) {
  Experiment e = MakeExperiment({"a\x1b[2J"});
  const GateResult result = Judge(e, MaxLoss("a\x1b[2J", 3));
  EXPECT_THAT(result.message + Joined(result), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace upgrade_gate::gates
