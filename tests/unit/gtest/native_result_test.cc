#include "framework/gtest/native_result.h"

#include <gmock/gmock.h>

#include "tests/unit/gates/experiment.h"

namespace upgrade_gate::gtest {
namespace {

using gates::Finding;
using gates::GateResult;
using gates::Verdict;
using testing::HasSubstr;
using testing::IsSupersetOf;

Evaluation Of(Verdict verdict, Finding finding, const std::string& message) {
  Evaluation evaluation;
  evaluation.result.verdict = verdict;
  evaluation.result.finding = finding;
  evaluation.result.message = message;
  evaluation.result.estimate = 1.5;
  evaluation.margin = 1.2;
  evaluation.explanation = {"formula"};
  return evaluation;
}

const Evaluation kPassed = Of(Verdict::kPass, Finding::kNone, "a holds");
const Evaluation kOpen = Of(Verdict::kInconclusive, Finding::kUndecided, "b cannot be told");
const Evaluation kFailed = Of(Verdict::kFail, Finding::kRegression, "c is worse");

class NativeResultTest : public testing::Test {
 protected:
  NativeResultTest() : experiment_(gates::MakeExperiment()) {
    gate_.id = "own";
    gate_.location = {.line = 12, .column = 3};
    gate_.severity = plan::Severity::kAdvisory;
    gate_.rule = plan::NativeGate{"UpgradeTest.Own"};
  }

  GateResult Result(const std::vector<Evaluation>& evaluations, const TestRun& run = {},
                    bool look = false) {
    Session session(experiment_.plan, experiment_.summary());
    for (const Evaluation& evaluation : evaluations) session.Record(evaluation, false);
    if (look || !evaluations.empty()) session.Look();
    return NativeResult(gate_, session, run);
  }

  gates::Experiment experiment_;
  plan::Gate gate_;
};

TEST_F(NativeResultTest, PassesWhenEveryExpectationHolds) {
  const GateResult result = Result({kPassed, Of(Verdict::kPass, Finding::kNone, "d holds")});
  EXPECT_EQ(result.id, "own");
  EXPECT_EQ(result.kind, plan::GateKind::kNative);
  EXPECT_EQ(result.severity, plan::Severity::kAdvisory);
  EXPECT_EQ(result.location.line, 12);
  EXPECT_EQ(result.verdict, Verdict::kPass);
  EXPECT_EQ(result.finding, Finding::kNone);
  EXPECT_EQ(result.message, "a holds (and 1 other expectation)");
  EXPECT_EQ(result.estimate, 1.5);
  EXPECT_EQ(result.margin, 1.2);
  EXPECT_EQ(result.cases.size(), 2U);
  EXPECT_THAT(result.explanation, IsSupersetOf({"a holds", "  formula", "d holds"}));
}

TEST_F(NativeResultTest, OneThatCannotTellKeepsItFromPassingEvenWithoutAFailure) {
  const GateResult result = Result({kPassed, kOpen});
  EXPECT_EQ(result.verdict, Verdict::kInconclusive);
  EXPECT_EQ(result.finding, Finding::kUndecided);
  EXPECT_EQ(result.message, "b cannot be told (and 1 other expectation)");
}

TEST_F(NativeResultTest, AFailureOutweighsWhatCannotBeTold) {
  const TestRun run{
      .failures = {{"own.cc:3: x", Verdict::kInconclusive}, {"own.cc:4: y", Verdict::kFail}},
      .skipped = {}};
  const GateResult by_matcher = Result({kOpen, kFailed}, run);
  EXPECT_EQ(by_matcher.verdict, Verdict::kFail);
  EXPECT_EQ(by_matcher.finding, Finding::kRegression);
  EXPECT_EQ(by_matcher.message, "c is worse (and 1 other expectation)");
  const GateResult plain = Result({kOpen}, run);
  EXPECT_EQ(plain.verdict, Verdict::kFail);
  EXPECT_EQ(plain.finding, Finding::kExpectationFailed);
  EXPECT_EQ(plain.message, "own.cc:4: y");
}

TEST_F(NativeResultTest, AMatcherThatWasWantedToFailDecidesNothing) {
  // EXPECT_THAT(…, Not(M)) with an M that does not hold.
  EXPECT_EQ(Result({kFailed}).verdict, Verdict::kPass);
}

TEST_F(NativeResultTest, SeveralLinesBecomeOneAndAllAreExplained) {
  const GateResult result =
      Result({}, {.failures = {{"own.cc:4: Expected: a\n  Actual: \x1b[31mb\n", Verdict::kFail}},
                  .skipped = {}});
  EXPECT_EQ(result.message, "own.cc:4: Expected: a; Actual: \x1b[31mb");
  EXPECT_THAT(result.explanation, IsSupersetOf({"own.cc:4: Expected: a", "  Actual: \\x1b[31mb"}));
}

TEST_F(NativeResultTest, SkippingAndLookingAtNothingAreNoPass) {
  const GateResult skipped = Result({kPassed}, {.failures = {}, .skipped = "own.cc:9: not today"});
  EXPECT_EQ(skipped.verdict, Verdict::kInconclusive);
  EXPECT_EQ(skipped.message, "the test skipped itself: own.cc:9: not today");
  const GateResult nothing = Result({});
  EXPECT_EQ(nothing.verdict, Verdict::kInconclusive);
  EXPECT_THAT(nothing.message, HasSubstr("looked at no evidence"));
  EXPECT_EQ(Result({}, {}, true).verdict, Verdict::kPass) << "plain expectations on the numbers";
}

}  // namespace
}  // namespace upgrade_gate::gtest
