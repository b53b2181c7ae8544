#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/gates/judge.h"
#include "framework/plan/plan_file.h"
#include "tests/unit/gates/experiment.h"

namespace upgrade_gate::gates {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCase = "1k-512-c1";

Judgement Judge(Experiment& e, const std::vector<plan::Gate>& gates) {
  e.plan.gates = gates;
  return JudgeAll(e.plan, e.evidence.plan_yaml, e.evidence);
}

TEST(JudgeAll, AcceptsWhenEveryRequiredGatePasses) {
  Experiment e = MakeExperiment();
  const Judgement judgement = Judge(e, {MaxLoss(kCase, 3), Failures(20), Provenance()});
  EXPECT_EQ(judgement.decision, Decision::kAccept) << judgement.reason;
  EXPECT_EQ(judgement.reason, "3 of 3 required gates passed");
  EXPECT_TRUE(judgement.complete);
  EXPECT_FALSE(judgement.rejudged);
  EXPECT_EQ(judgement.evidence, Digest('e'));
  EXPECT_EQ(judgement.plan_sha256, base::Sha256Of("version: 1\n"));
  EXPECT_EQ(judgement.candidate_identity, Digest('b'));
  EXPECT_EQ(judgement.rollback_identity, Digest('a'));
}

TEST(JudgeAll, AFailureRejectsWhateverElseIsUnknown) {
  Experiment e = MakeExperiment({"a", "b"});
  SetRatio(e, "a", 0.5, 0.001);
  SetFailures(e, "b", kCandidate, 0, 1);
  const Judgement judgement = Judge(e, {MaxLoss("b", 3), MaxLoss("a", 3)});
  EXPECT_EQ(judgement.decision, Decision::kReject);
  EXPECT_EQ(judgement.reason,
            "1 of 2 required gates failed: throughput.a; inconclusive: throughput.b");
}

TEST(JudgeAll, AnUnknownIsNotAccepted) {
  Experiment e = MakeExperiment({"a", "b"});
  SetFailures(e, "b", kCandidate, 0, 1);
  const Judgement judgement = Judge(e, {MaxLoss("a", 3), MaxLoss("b", 3)});
  EXPECT_EQ(judgement.decision, Decision::kInconclusive);
  EXPECT_EQ(judgement.reason, "1 of 2 required gates inconclusive: throughput.b");
}

TEST(JudgeAll, AdvisoryGatesAreShownAndChangeNothing) {
  Experiment e = MakeExperiment({"a", "b"});
  SetRatio(e, "a", 0.5, 0.001);
  plan::Gate advisory = MaxLoss("a", 3);
  advisory.severity = plan::Severity::kAdvisory;
  const Judgement judgement = Judge(e, {advisory, MaxLoss("b", 3)});
  EXPECT_EQ(judgement.decision, Decision::kAccept);
  EXPECT_EQ(judgement.gates[0].verdict, Verdict::kFail);
  EXPECT_THAT(judgement.conditions, Contains("advisory gate throughput.a did not pass (fail); it "
                                             "changes nothing"));
  // Advisory gates alone accept nothing.
  advisory.selection.case_name = "b";
  EXPECT_EQ(Judge(e, {advisory}).decision, Decision::kInconclusive);
  EXPECT_EQ(Judge(e, {}).decision, Decision::kInconclusive);
}

TEST(JudgeAll, AnIncompleteOrchestrationIsNeverAccepted) {
  Experiment e = MakeExperiment();
  e.summary().capture.complete = false;
  e.summary().capture.incidents = {"boot 2 was lost\n"};
  const Judgement judgement = Judge(e, {MaxLoss(kCase, 3)});
  EXPECT_EQ(judgement.decision, Decision::kInconclusive);
  EXPECT_THAT(judgement.reason, HasSubstr("the orchestration is incomplete"));
  EXPECT_THAT(judgement.incidents, Contains("boot 2 was lost\\x0a"));
  SetRatio(e, kCase, 0.5, 0.001);
  EXPECT_EQ(Judge(e, {MaxLoss(kCase, 3)}).decision, Decision::kReject);
}

TEST(JudgeAll, EvidenceOfAnotherWorkloadIsNeverAccepted) {
  Experiment e = MakeExperiment();
  e.summary().capture.workload = Digest('0');
  const Judgement judgement = Judge(e, {MaxLoss(kCase, 3)});
  EXPECT_EQ(judgement.decision, Decision::kInconclusive);
  EXPECT_FALSE(judgement.complete);
  EXPECT_THAT(judgement.incidents, Contains(HasSubstr("another workload")));
}

TEST(JudgeAll, AnotherPlanFileIsARejudgement) {
  Experiment e = MakeExperiment();
  e.plan.gates = {MaxLoss(kCase, 3)};
  const Judgement judgement = JudgeAll(e.plan, "version: 1\n# other\n", e.evidence);
  EXPECT_TRUE(judgement.rejudged);
  EXPECT_THAT(judgement.conditions, Contains(HasSubstr("re-judged after capture")));
  EXPECT_EQ(judgement.plan_sha256, base::Sha256Of("version: 1\n# other\n"));
}

TEST(JudgeAll, SaysTheConditionsOfTheDecision) {
  Experiment e = MakeExperiment({"a", "b"});
  e.plan.boot_noise = {.value = base::Percent{1}, .reason = {}};
  e.plan.expected_changes = {{"swa_bounded_replay", "absent", "enabled", "default"}};
  e.plan.not_covered = {"1M context"};
  SetFailures(e, "a", kBaseline, 0, 1);
  e.summary().cases[1].arms.erase(kCandidate);
  e.At("a", kCandidate).superseded_rounds = 2;
  e.summary().capture.workload = plan::WorkloadDigest(e.plan);
  const Judgement judgement = Judge(e, {MaxLoss("a", 3)});
  const auto& said = judgement.conditions;
  EXPECT_THAT(said,
              Contains("one boot an arm: boot-to-boot noise assumed (1 % a boot), not measured"));
  EXPECT_THAT(said, Contains(HasSubstr("not attributable to one change")));
  EXPECT_THAT(said, Contains("failure shares are of this workload, not a production rate"));
  EXPECT_THAT(said, Contains("† a: requests failed (baseline 1 of 24 and candidate 0 of 24): "
                             "observed throughput only, no gain is assigned"));
  EXPECT_THAT(said, Contains("not run: b in candidate; nothing is inferred from it"));
  EXPECT_THAT(said, Contains("2 rounds were measured again in a later boot; kept, not judged"));
  EXPECT_THAT(said, Contains("declared change: swa_bounded_replay: absent → enabled: default"));
  EXPECT_THAT(judgement.not_covered, Contains("1M context"));
}

TEST(JudgeAll, AnAttributionArmThatWasMeasuredTakesTheConditionAway) {
  Experiment e = MakeExperiment();
  plan::Arm arm = e.plan.arms[1];
  arm.name = "no-replay";
  arm.role = plan::ArmRole::kAttribution;
  e.plan.arms.push_back(arm);
  EXPECT_THAT(Judge(e, {}).conditions, Contains(HasSubstr("not attributable")));
  AddBoot(e, "no-replay", 3);
  EXPECT_THAT(Judge(e, {}).conditions, Each(Not(HasSubstr("not attributable"))));
}

TEST(JudgeAll, IdentitiesThatDoNotAgreeAreNotGiven) {
  Experiment e = MakeExperiment();
  const int second = AddBoot(e, kBaseline, 3);
  EXPECT_EQ(Judge(e, {}).rollback_identity, Digest('a'));
  e.Boot(second).identity = Digest('f');
  EXPECT_EQ(Judge(e, {}).rollback_identity, "");
  EXPECT_EQ(Judge(e, {}).candidate_identity, Digest('b'));
}

TEST(CompareCase, GivesTheRatioOfEveryCaseWithoutAFailure) {
  Experiment e = MakeExperiment({"a", "b", "c"});
  SetRatio(e, "a", 2.226, 0.0071);
  SetRatio(e, "b", 2.226, 0.0071);
  SetFailures(e, "b", kBaseline, 2, 1);
  e.summary().cases[2].arms.erase(kBaseline);
  const auto cases = Judge(e, {}).cases;
  ASSERT_EQ(cases.size(), 3U);
  ASSERT_TRUE(cases[0].output_tokens_per_s.has_value());
  EXPECT_NEAR(cases[0].output_tokens_per_s->estimate, 2.226, 1e-9);
  EXPECT_NEAR(cases[0].output_tokens_per_s->interval->lower, 2.1995, 1e-3);
  EXPECT_EQ(cases[0].output_tokens_per_s->rounds, 3);
  EXPECT_EQ(cases[0].output_tokens_per_s->boots, 1);
  EXPECT_FALSE(cases[0].dagger);
  EXPECT_TRUE(cases[1].dagger);
  EXPECT_FALSE(cases[1].output_tokens_per_s.has_value());
  EXPECT_FALSE(cases[2].output_tokens_per_s.has_value());
}

plan::Gate Native(const std::string& id) {
  plan::Gate gate;
  gate.id = id;
  gate.location = {.line = 9, .column = 5};
  gate.rule = plan::NativeGate{"UpgradeTest.Own"};
  return gate;
}

TEST(NativeGate, WithoutAResultNothingIsAccepted) {
  Experiment e = MakeExperiment();
  e.plan.gates = {MaxLoss("1k-512-c1", 3), Native("own")};
  const Judgement judgement = JudgeAll(e.plan, "", e.evidence);
  EXPECT_EQ(judgement.decision, Decision::kInconclusive);
  EXPECT_EQ(judgement.gates[1].verdict, Verdict::kInconclusive);
  EXPECT_EQ(judgement.gates[1].finding, Finding::kNoResult);
  EXPECT_EQ(judgement.gates[1].message,
            "UpgradeTest.Own: the test left no result of this evidence and this plan");
}

TEST(NativeGate, ItsTestsResultCountsAndThePlanSaysHowMuch) {
  Experiment e = MakeExperiment();
  e.plan.gates = {MaxLoss("1k-512-c1", 3), Native("own")};
  GateResult left;
  left.id = "something else";
  left.severity = plan::Severity::kAdvisory;
  left.verdict = Verdict::kFail;
  left.finding = Finding::kRegression;
  left.message = "worse";
  const Judgement judgement = JudgeAll(e.plan, "", e.evidence, {{"own", left}});
  EXPECT_EQ(judgement.decision, Decision::kReject);
  EXPECT_EQ(judgement.gates[1].id, "own");
  EXPECT_EQ(judgement.gates[1].severity, plan::Severity::kRequired);
  EXPECT_EQ(judgement.gates[1].location.line, 9);
  EXPECT_EQ(judgement.gates[1].message, "worse");
  left.verdict = Verdict::kPass;
  EXPECT_EQ(JudgeAll(e.plan, "", e.evidence, {{"own", left}}).decision, Decision::kAccept);
  // A result of a gate that the plan judges itself is not asked.
  left.verdict = Verdict::kFail;
  EXPECT_EQ(JudgeAll(e.plan, "", e.evidence, {{e.plan.gates[0].id, left}}).gates[0].verdict,
            Verdict::kPass);
}

}  // namespace
}  // namespace upgrade_gate::gates
