#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/gates/judge.h"
#include "tests/unit/gates/experiment.h"

namespace upgrade_gate::gates {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCase = "1k-512-c1";

evidence::ClientHealth Sound() {
  evidence::ClientHealth health;
  health.asked = health.delivered.emplace(1);
  health.reads = 4096;
  return health;
}
evidence::ClientHealth Inexact() {
  evidence::ClientHealth health = Sound();
  health.inexact_reads = 410;
  return health;
}
evidence::ClientHealth HeldBack() {
  evidence::ClientHealth health = Sound();
  health.open_loop = true;
  health.held_back = 3;
  return health;
}

// All rounds of both arms sound, but for one of the candidate's.
Experiment With(const evidence::ClientHealth& health) {
  Experiment e = MakeExperiment({kCase, "other"});
  SetRatio(e, kCase, 2, 0.001);
  for (const char* arm : {kBaseline, kCandidate}) {
    for (int i = 0; i < 3; ++i) e.Round(kCase, arm, i).client = Sound();
  }
  e.Round(kCase, kCandidate, 1).client = health;
  return e;
}

GateResult Judge(const Experiment& e, const plan::Gate& gate) {
  return JudgeGate(e.plan, gate, e.evidence.summary);
}

std::vector<std::string> ConditionsOf(const Experiment& e) {
  return JudgeAll(e.plan, e.evidence.plan_yaml, e.evidence).conditions;
}

TEST(ClientGates, ASoundClientChangesNothing) {
  const Experiment e = With(Sound());
  EXPECT_EQ(Judge(e, MinGain(kCase, 50)).verdict, Verdict::kPass);
  EXPECT_EQ(Judge(e, MinThroughput(kCase, 50)).verdict, Verdict::kPass);
}

TEST(ClientGates, ARoundThatTheClientHurtIsNotCompared) {
  const Experiment e = With(Inexact());
  for (const plan::Gate& gate : {MinGain(kCase, 50), MaxLoss(kCase, 3), MinThroughput(kCase, 50)}) {
    const GateResult result = Judge(e, gate);
    EXPECT_EQ(result.verdict, Verdict::kInconclusive) << result.message;
    EXPECT_EQ(result.finding, Finding::kClientBound);
    EXPECT_THAT(result.message,
                HasSubstr("not to be compared: 1k-512-c1: round 2 of boot 2 (candidate): 10.0 % of "
                          "4096 reads were so late that several texts have one stamp"));
  }
}

TEST(ClientGates, ABrokenLimitIsNotCertainEither) {
  Experiment e = With(Inexact());
  EXPECT_EQ(Judge(e, MinThroughput(kCase, 5000)).verdict, Verdict::kInconclusive);
  e.Round(kCase, kCandidate, 1).client = Sound();
  EXPECT_EQ(Judge(e, MinThroughput(kCase, 5000)).verdict, Verdict::kFail);
}

TEST(ClientGates, ALoadThatWasNotDeliveredIsNotCompared) {
  const GateResult result = Judge(With(HeldBack()), MinGain(kCase, 50));
  EXPECT_EQ(result.verdict, Verdict::kInconclusive);
  EXPECT_EQ(result.finding, Finding::kLoadNotDelivered);
}

TEST(ClientGates, FailuresOfALoadThatWasNotDeliveredDoNotPassAndStillFail) {
  Experiment e = With(HeldBack());
  GateResult result = Judge(e, Failures(50));
  EXPECT_EQ(result.verdict, Verdict::kInconclusive);
  EXPECT_EQ(result.finding, Finding::kLoadNotDelivered);
  EXPECT_THAT(result.message, HasSubstr("would pass, but 1k-512-c1: round 2 of boot 2"));
  for (int i = 0; i < 3; ++i) SetFailures(e, kCase, kCandidate, i, 8);
  result = Judge(e, Failures(1));
  EXPECT_EQ(result.verdict, Verdict::kFail) << result.message;
}

TEST(ClientGates, AnotherCaseAndProvenanceAreNotTouched) {
  Experiment e = With(Inexact());
  SetRatio(e, "other", 2, 0.001);
  EXPECT_EQ(Judge(e, MinGain("other", 50)).verdict, Verdict::kPass);
  EXPECT_EQ(Judge(e, Provenance()).verdict, Verdict::kPass) << Judge(e, Provenance()).message;
}

TEST(ClientGates, EvidenceOfAnOlderClientIsNotJudgedByIt) {
  Experiment e = MakeExperiment();
  SetRatio(e, kCase, 2, 0.001);
  EXPECT_EQ(Judge(e, MinGain(kCase, 50)).verdict, Verdict::kPass);
  EXPECT_THAT(ConditionsOf(e), Each(Not(HasSubstr("client"))));
}

TEST(ClientGates, TheConditionsSayWhatIsNotValidAndWhatWasNoted) {
  Experiment e = With(Inexact());
  for (int i = 1; i < 3; ++i) e.Round(kCase, kBaseline, i).client->cpu_share = 0.75;
  const auto conditions = ConditionsOf(e);
  EXPECT_THAT(conditions,
              Contains(HasSubstr("not valid (client_bound): 1k-512-c1: round 2 of boot 2 "
                                 "(candidate): 10.0 %")));
  EXPECT_THAT(conditions,
              Contains("client, nothing invalid by it: 1k-512-c1: round 2 of boot 1 (baseline): a "
                       "client thread used 75 % of a core (2 of 3 rounds have notes)"));
}

}  // namespace
}  // namespace upgrade_gate::gates
