#include "framework/gtest/matchers.h"

#include <gtest/gtest-spi.h>

#include <functional>

#include "framework/base/file.h"
#include "framework/gtest/session.h"
#include "framework/gtest/upgrade_test.h"
#include "tests/unit/gates/experiment.h"

namespace upgrade_gate::gtest {
namespace {

using evidence::Metric;
using gates::Experiment;
using gates::Finding;
using gates::Verdict;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kCase = "1k-512-c1";

class Matchers : public UpgradeTest {
 protected:
  Matchers() : experiment_(gates::MakeExperiment({kCase, "8k-256-c8"})) {
    gates::SetRatio(experiment_, kCase, 0.99, 0.002);
    gates::SetThroughput(experiment_, "8k-256-c8", "baseline", {115, 114, 116});
    gates::SetThroughput(experiment_, "8k-256-c8", "candidate", {254, 252, 256});
    gates::SetLatency(experiment_, kCase, "baseline", Metric::kTtft, 95, {100, 101, 99});
    gates::SetLatency(experiment_, kCase, "candidate", Metric::kTtft, 95, {108, 109, 107});
    session();
  }

  Session& session() {
    if (!session_) session_.emplace(experiment_.plan, experiment_.summary());
    return *session_;
  }

  // The verdict of the one expectation that the matcher made.
  template <typename Subject, typename M>
  gates::CaseResult Judged(const Subject& subject, const M& matcher) {
    session_.reset();
    const bool matches = testing::Value(subject, (session(), matcher));
    EXPECT_EQ(session().evaluations().size(), 1U);
    if (session().evaluations().size() != 1) return {};
    const gates::CaseResult result = session().evaluations().front().result;
    EXPECT_EQ(matches, result.verdict == Verdict::kPass) << result.message;
    return result;
  }

  Experiment experiment_;
  std::optional<Session> session_;
};

// What GoogleTest prints where the expectation fails; "passes" where it does not.
std::string FailureOf(const std::function<void()>& expectation) {
  testing::TestPartResultArray parts;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &parts);
    expectation();
  }
  return parts.size() == 0 ? "passes" : parts.GetTestPartResult(0).message();
}

// The whole text of every kind of message. It is read by people: after a change,
// read the file that the failure names, and copy it over the checked-in one.
TEST_F(Matchers, MessagesAreTheCheckedInOnes) {
  gates::SetFailures(experiment_, "8k-256-c8", "candidate", 1, 3);
  experiment_.Round("8k-256-c8", "candidate", 2).inputs = gates::Digest('9');
  session();
  std::string text;
  const auto add = [&](const std::function<void()>& expectation) {
    text += FailureOf(expectation) + "\n\n";
  };
  const std::string digest(64, 'b');
  add([] { EXPECT_THAT(Pair(kCase), OutputThroughputGain(AtLeast(Percent(50)))); });
  add([] { EXPECT_THAT(Pair(kCase), OutputThroughputGain(AtLeast(Percent(-1)))); });
  add([] {
    EXPECT_THAT(Pair(kCase),
                OutputThroughputLoss(AtMost(Percent(0.5)).WithConfidence(Percent(99))));
  });
  add([] { EXPECT_THAT(Pair("8k-256-c8"), OutputThroughputGain(AtLeast(Percent(50)))); });
  add([] { EXPECT_THAT(Pair(kCase), Ttft(P95, AtMost(Percent(5)))); });
  add([] { EXPECT_THAT(Candidate().In(kCase), Ttft(P95, AtMost(milliseconds(100)))); });
  add([] { EXPECT_THAT(Candidate().In(kCase), OutputThroughput(AtLeast(TokensPerSecond(900)))); });
  add([] { EXPECT_THAT(Candidate(), OutputThroughput(AtLeast(TokensPerSecond(900)))); });
  add([] { EXPECT_THAT(Candidate(), EmptyOutputs(AtMost(Percent(2)))); });
  add([] { EXPECT_THAT(Candidate().In("8k-256-c8"), Failures(AtMost(Percent(1)))); });
  add([] { EXPECT_THAT(Pair("8k-256-c8"), SameInputs()); });
  add([digest] { EXPECT_THAT(Baseline(), PinnedBy("sha256:" + digest)); });
  add([] { EXPECT_THAT(Baseline(), PinnedBy("v0.32.0")); });
  add([] { EXPECT_THAT(Pair("8k-256-c9"), SameInputs()); });
  add([] { EXPECT_THAT(Arm("candidte"), EmptyOutputs(AtMost(Percent(2)))); });
  add([] { EXPECT_THAT(Pair(kCase), Not(OutputThroughputLoss(AtMost(Percent(5))))); });
  add([] { EXPECT_THAT(Pair(kCase), Tpot(P50, AtMost(Percent(5)).WithConfidence(Percent(5)))); });
  const auto golden = base::ReadFile(UPGRADE_GATE_GOLDEN, 1 << 20);
  ASSERT_TRUE(base::WriteFile(UPGRADE_GATE_ACTUAL, text));
  ASSERT_TRUE(golden) << golden.error().message;
  EXPECT_EQ(text, *golden) << "what was printed is in " << UPGRADE_GATE_ACTUAL;
}

TEST_F(Matchers, ThroughputIsJudgedAsTheGateOfThePlanJudgesIt) {
  for (const double percent : {-3.0, -1.0, 0.0, 50.0, 200.0}) {
    for (const char* name : {kCase, "8k-256-c8"}) {
      const plan::Gate gate =
          percent < 0 ? gates::MaxLoss(name, -percent) : gates::MinGain(name, percent);
      const gates::GateResult expected =
          gates::JudgeGate(experiment_.plan, gate, experiment_.summary());
      const auto result = Judged(Pair(name), OutputThroughputGain(AtLeast(Percent(percent))));
      EXPECT_EQ(result.verdict, expected.verdict) << name << percent;
      EXPECT_EQ(result.finding, expected.finding);
      EXPECT_EQ(result.estimate, expected.estimate);
      EXPECT_EQ(result.interval->lower, expected.interval->lower);
    }
  }
}

TEST_F(Matchers, EachHasItsThreeVerdicts) {
  EXPECT_EQ(Judged(Pair(kCase), OutputThroughputLoss(AtMost(Percent(3)))).verdict, Verdict::kPass);
  EXPECT_EQ(Judged(Pair(kCase), OutputThroughputLoss(AtMost(Percent(0.5)))).verdict,
            Verdict::kFail);
  EXPECT_EQ(Judged(Pair(kCase), OutputThroughputLoss(AtMost(Percent(1)))).verdict,
            Verdict::kInconclusive);
  EXPECT_EQ(Judged(Pair(kCase), Ttft(P95, AtMost(Percent(12)))).verdict, Verdict::kPass);
  EXPECT_EQ(Judged(Pair(kCase), Ttft(P95, AtMost(Percent(5)))).verdict, Verdict::kFail);
  EXPECT_EQ(Judged(Pair(kCase), Ttft(P95, AtMost(Percent(8)))).verdict, Verdict::kInconclusive);
  EXPECT_EQ(Judged(Pair(kCase), Tpot(P50, AtMost(Percent(1)))).verdict, Verdict::kPass);
  EXPECT_EQ(Judged(Pair(kCase), E2e(P99, AtMost(Percent(-10)))).verdict, Verdict::kFail);
  const MeasuredArm arm = Candidate().In(kCase);
  EXPECT_EQ(Judged(arm, OutputThroughput(AtLeast(TokensPerSecond(100)))).verdict, Verdict::kPass);
  EXPECT_EQ(Judged(arm, OutputThroughput(AtLeast(TokensPerSecond(200)))).verdict, Verdict::kFail);
  EXPECT_EQ(Judged(arm, Ttft(P95, AtMost(milliseconds(120)))).verdict, Verdict::kPass);
  EXPECT_EQ(Judged(arm, Ttft(P95, AtMost(milliseconds(90)))).verdict, Verdict::kFail);
  EXPECT_EQ(Judged(arm, Ttft(P95, AtMost(milliseconds(108)))).verdict, Verdict::kInconclusive);
  EXPECT_EQ(Judged(Pair(kCase), SameInputs()).verdict, Verdict::kPass);
}

TEST_F(Matchers, ALevelIsOfTheArmThatWasAsked) {
  EXPECT_EQ(
      Judged(Baseline().In("8k-256-c8"), OutputThroughput(AtLeast(TokensPerSecond(200)))).verdict,
      Verdict::kFail);
  EXPECT_EQ(
      Judged(Candidate().In("8k-256-c8"), OutputThroughput(AtLeast(TokensPerSecond(200)))).verdict,
      Verdict::kPass);
  EXPECT_EQ(Judged(Baseline().In(kCase), Ttft(P95, AtMost(milliseconds(104)))).verdict,
            Verdict::kPass);
  EXPECT_EQ(Judged(Candidate().In(kCase), Ttft(P95, AtMost(milliseconds(104)))).verdict,
            Verdict::kFail);
}

TEST_F(Matchers, FailuresAreCountedByKindArmAndCase) {
  gates::SetFailures(experiment_, "8k-256-c8", "candidate", 1, 8);
  EXPECT_EQ(Judged(Candidate(), EmptyOutputs(AtMost(Percent(2)))).verdict, Verdict::kFail);
  EXPECT_EQ(Judged(Candidate(), Failures(AtMost(Percent(2)))).verdict, Verdict::kFail);
  EXPECT_EQ(
      Judged(Candidate(), Failures(evidence::FailureKind::kTransport, AtMost(Percent(50)))).verdict,
      Verdict::kPass);
  EXPECT_EQ(Judged(Candidate().In(kCase), EmptyOutputs(AtMost(Percent(50)))).verdict,
            Verdict::kPass);
  EXPECT_EQ(Judged(Baseline(), EmptyOutputs(AtMost(Percent(50)))).verdict, Verdict::kPass);
}

TEST_F(Matchers, WithConfidenceWidensTheInterval) {
  const auto usual = Judged(Pair(kCase), OutputThroughputLoss(AtMost(Percent(1.5))));
  const auto sure =
      Judged(Pair(kCase), OutputThroughputLoss(AtMost(Percent(1.5)).WithConfidence(Percent(99))));
  EXPECT_LT(sure.interval->lower, usual.interval->lower);
  EXPECT_GT(sure.interval->upper, usual.interval->upper);
  EXPECT_EQ(usual.verdict, Verdict::kPass);
  EXPECT_EQ(sure.verdict, Verdict::kInconclusive);
}

TEST_F(Matchers, SameInputsSeesOtherBytesAndMissingRounds) {
  experiment_.Round(kCase, "candidate", 0).inputs = gates::Digest('9');
  EXPECT_EQ(Judged(Pair(kCase), SameInputs()).finding, Finding::kInputsDiffer);
  experiment_ = gates::MakeExperiment({kCase});
  experiment_.At(kCase, "candidate").rounds.pop_back();
  EXPECT_EQ(Judged(Pair(kCase), SameInputs()).verdict, Verdict::kInconclusive);
}

TEST_F(Matchers, PinnedByWantsThePinOfEveryBoot) {
  EXPECT_EQ(Judged(Candidate(), PinnedBy(gates::Digest('b'))).verdict, Verdict::kPass);
  EXPECT_EQ(Judged(Candidate(), PinnedBy("sha256:" + gates::Digest('b'))).verdict, Verdict::kPass);
  EXPECT_EQ(Judged(Candidate(), PinnedBy(gates::Digest('a'))).finding, Finding::kPinMismatch);
  gates::AddBoot(experiment_, gates::kCandidate, 3);
  EXPECT_EQ(Judged(Candidate(), PinnedBy(gates::Digest('b'))).verdict, Verdict::kPass);
  experiment_.Boot(3).pins.front().found = gates::Digest('d');
  EXPECT_EQ(Judged(Candidate(), PinnedBy(gates::Digest('b'))).verdict, Verdict::kFail);
  experiment_.Boot(3).pins.front().found.clear();
  EXPECT_EQ(Judged(Candidate(), PinnedBy(gates::Digest('b'))).finding, Finding::kPinUnproved);
  experiment_.Boot(3).pins.clear();
  EXPECT_EQ(Judged(Candidate(), PinnedBy(gates::Digest('b'))).verdict, Verdict::kInconclusive);
  for (auto& of : experiment_.summary().cases) of.arms.erase("candidate");
  EXPECT_EQ(Judged(Candidate(), PinnedBy(gates::Digest('b'))).verdict, Verdict::kInconclusive);
}

TEST_F(Matchers, BoundsThatAnythingWouldMeetAreRefused) {
  for (const auto& result : {
           Judged(Pair(kCase), OutputThroughputGain(AtLeast(Percent(-100)))),
           Judged(Pair(kCase), OutputThroughputLoss(AtMost(Percent(100)))),
           Judged(Pair(kCase), OutputThroughputLoss(AtMost(Percent(std::nan(""))))),
           Judged(Pair(kCase),
                  OutputThroughputLoss(AtMost(Percent(3)).WithConfidence(Percent(100)))),
           Judged(Pair(kCase),
                  OutputThroughputLoss(AtMost(Percent(3)).WithConfidence(Percent(50)))),
           Judged(Candidate(), EmptyOutputs(AtMost(Percent(100)))),
           Judged(Candidate().In(kCase), OutputThroughput(AtLeast(TokensPerSecond(0)))),
           Judged(Candidate().In(kCase), Ttft(P95, AtMost(milliseconds(0)))),
       }) {
    EXPECT_EQ(result.verdict, Verdict::kInconclusive) << result.message;
    EXPECT_THAT(result.reason, HasSubstr("is not")) << result.message;
  }
}

TEST_F(Matchers, WithoutARunningGateNothingMatches) {
  session_.reset();
  EXPECT_THAT(FailureOf([] { EXPECT_THAT(ArmPair{kCase}, SameInputs()); }),
              HasSubstr("inconclusive: there is no evidence here"));
}

TEST_F(Matchers, AFailureIsInconclusiveOnlyIfItsMatcherCouldNotTell) {
  const auto open = [] { EXPECT_THAT(Pair(kCase), OutputThroughputLoss(AtMost(Percent(1)))); };
  const auto over = [] { EXPECT_THAT(Pair(kCase), OutputThroughputLoss(AtMost(Percent(0.5)))); };
  session();
  EXPECT_NE(FailureOf(open), "passes");
  EXPECT_EQ(session().TakeFailure(), Verdict::kInconclusive);
  EXPECT_NE(FailureOf(over), "passes");
  EXPECT_EQ(session().TakeFailure(), Verdict::kFail);
  EXPECT_EQ(session().TakeFailure(), Verdict::kFail) << "a plain failure after it";
  // Not(…) of what cannot be told holds for GoogleTest, and is no excuse for the next failure.
  EXPECT_EQ(
      FailureOf([] { EXPECT_THAT(Pair(kCase), Not(OutputThroughputLoss(AtMost(Percent(1))))); }),
      "passes");
  EXPECT_EQ(session().TakeFailure(), Verdict::kFail);
}

TEST_F(Matchers, CasesAreFoundByNameAndShape) {
  session();
  EXPECT_THAT(CaseNames(), ElementsAre(kCase, "8k-256-c8"));
  EXPECT_THAT(CaseNames("single_stream"), ElementsAre(kCase, "8k-256-c8"));
  EXPECT_THAT(CaseNames("other"), ElementsAre());
  EXPECT_EQ(Case(kCase).output_tokens, 512);
  EXPECT_THAT(FailureOf([] { EXPECT_EQ(Case("1k-512-c2").name, ""); }),
              HasSubstr("the plan has no case \"1k-512-c2\" (did you mean \"1k-512-c1\"?)"));
  EXPECT_FALSE(session().looked()) << "the plan is no evidence";
  EXPECT_TRUE(Summary().capture.complete);
  EXPECT_TRUE(session().looked());
}

TEST_F(Matchers, UnitsPrintAsAPlanWritesThem) {
  EXPECT_EQ(testing::PrintToString(Percent(2.5)), "2.5%");
  EXPECT_EQ(testing::PrintToString(TokensPerSecond(900)), "900tok/s");
}

}  // namespace
}  // namespace upgrade_gate::gtest
