#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "framework/gates/judge.h"
#include "tests/unit/gates/experiment.h"

namespace upgrade_gate::gates {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCase = "1k-512-c1";

GateResult Judge(const Experiment& e, const plan::Gate& gate) {
  return JudgeGate(e.plan, gate, e.evidence.summary);
}

TEST(ProvenanceGate, PassesWhatIsAsThePlanSays) {
  const Experiment e = MakeExperiment();
  const GateResult result = Judge(e, Provenance());
  EXPECT_EQ(result.verdict, Verdict::kPass) << result.message;
  EXPECT_EQ(result.finding, Finding::kNone);
  EXPECT_EQ(result.boots, 2);
  EXPECT_EQ(result.rounds, 6);
}

// Of servers that somebody else runs.
void Claim(Experiment& e, const std::map<std::string, std::string>& declared,
           const std::map<std::string, std::string>& said) {
  e.plan.server.launcher = plan::LauncherKind::kEndpoint;
  for (auto& arm : e.plan.arms) {
    arm.executable.reset();
    arm.command.clear();
    arm.identity = declared;
  }
  for (int number : {1, 2}) {
    evidence::BootRecord& boot = e.Boot(number);
    boot.pins.clear();
    boot.argv.clear();
    boot.strength = evidence::IdentityStrength::kClaimed;
    boot.server.values = said;
  }
}

// Of servers that a command starts from an image that is a file.
void OfFiles(Experiment& e) {
  e.plan.server.launcher = plan::LauncherKind::kCommand;
  e.plan.server.command_launcher.start = {"srun", "$COMMAND"};
  for (auto& arm : e.plan.arms) {
    arm.executable.reset();
    arm.image_file = plan::PinnedFile{"image.sif", Digest('9')};
  }
  for (int number : {1, 2}) {
    evidence::BootRecord& boot = e.Boot(number);
    boot.pins = {{"image_file", Digest('9'), Digest('9')}};
    boot.argv = {"srun", "--port", "$PORT"};
    boot.strength = evidence::IdentityStrength::kFile;
  }
}

struct Broken {
  const char* name;
  std::function<void(Experiment&)> breaks;
  Finding finding;
  Verdict verdict;
  bool voids_relative;
  std::string says;
};

std::vector<Broken> BrokenExperiments() {
  constexpr auto kFail = Verdict::kFail;
  constexpr auto kOpen = Verdict::kInconclusive;
  return {
      {"another executable", [](Experiment& e) { e.Boot(2).pins[0].found = Digest('f'); },
       Finding::kPinMismatch, kFail, true,
       "boot 2 (candidate): executable is ffffffffffff, pinned is bbbbbbbbbbbb"},
      {"another pin than the plan's",
       [](Experiment& e) {
         e.Boot(2).pins[0] = {"executable", Digest('f'), Digest('f')};
       },
       Finding::kPinMismatch, kFail, true,
       "executable was checked against ffffffffffff, the plan pins bbbbbbbbbbbb"},
      {"a pin without proof", [](Experiment& e) { e.Boot(1).pins[0].found.clear(); },
       Finding::kPinUnproved, kOpen, false, "boot 1 (baseline): executable could not be proved"},
      {"no pins", [](Experiment& e) { e.Boot(1).pins.clear(); }, Finding::kPinUnproved, kOpen,
       false, "boot 1 (baseline): executable was never checked"},
      {"an argument more", [](Experiment& e) { e.Boot(2).argv.push_back("--fast"); },
       Finding::kArgumentsDiffer, kFail, true,
       "boot 2 (candidate): its command has \"--fast\", not in the plan"},
      {"an argument less", [](Experiment& e) { e.Boot(1).argv.pop_back(); },
       Finding::kArgumentsDiffer, kFail, true, "its command lacks \"$PORT\" of the plan"},
      {"arguments in another order",
       [](Experiment& e) {
         e.Boot(1).argv = {"/opt/server", "$PORT", "--port"};
       },
       Finding::kArgumentsDiffer, kFail, true, "in another order"},
      {"no arguments recorded", [](Experiment& e) { e.Boot(1).argv.clear(); },
       Finding::kNotRecorded, kOpen, true, "its arguments are not recorded"},
      {"other request bodies",
       [](Experiment& e) { e.Round(kCase, kCandidate, 1).inputs = Digest('1'); },
       Finding::kInputsDiffer, kFail, true,
       "round 2: the request bodies of boot 1 (baseline) and boot 2 (candidate) differ"},
      {"request bodies not recorded",
       [](Experiment& e) { e.Round(kCase, kBaseline, 0).inputs.clear(); }, Finding::kNotRecorded,
       kOpen, true, "round 1: the fingerprint of the inputs of boot 1 (baseline)"},
      {"another planned count", [](Experiment& e) { e.Round(kCase, kCandidate, 0).planned = 7; },
       Finding::kInputsDiffer, kFail, true, "planned 7 requests, the plan says 8"},
      {"the same prompts again",
       [](Experiment& e) {
         for (const char* arm : {kBaseline, kCandidate}) {
           e.Round(kCase, arm, 1).inputs = e.Round(kCase, arm, 0).inputs;
         }
       },
       Finding::kInputsRepeated, kFail, true, "was sent the prompts of round 1 again"},
      {"another client", [](Experiment& e) { e.Boot(2).client_sha256 = Digest('d'); },
       Finding::kClientChanged, kFail, true,
       "measured by different clients: cccccccccccc in boot 1 and dddddddddddd in boot 2"},
      {"client not recorded", [](Experiment& e) { e.Boot(2).client_sha256.clear(); },
       Finding::kNotRecorded, kOpen, true, "the digest of its client is not recorded"},
      {"another host", [](Experiment& e) { e.Boot(2).host = "node-2\x1b"; }, Finding::kHostsDiffer,
       kFail, true, "different hosts: node-1 in boot 1 and node-2\\x1b in boot 2"},
      {"served by another host", [](Experiment& e) { e.Boot(2).server_host = "gpu-2\x1b"; },
       Finding::kHostsDiffer, kFail, true,
       "served by different hosts: gpu-2\\x1b in boot 2 and node-1 in boot 1; where these are "
       "names "
       "of one machine, let the identity command print its \"host\""},
      {"a claim that nobody declared", [](Experiment& e) { Claim(e, {}, {}); },
       Finding::kIdentityUnproved, kOpen, false,
       "boot 1 (baseline): nothing was proved of what answered, and the plan declares no identity "
       "for it"},
      {"another claim than declared",
       [](Experiment& e) {
         Claim(e, {{"version", "1"}}, {{"version", "2\x1b"}});
       },
       Finding::kIdentityMismatch, kFail, true,
       "boot 1 (baseline): the server said its version is \"2\\x1b\", declared is \"1\""},
      {"a claim that was not made",
       [](Experiment& e) {
         Claim(e, {{"image", "a"}, {"version", "1"}}, {{"version", "1"}});
       },
       Finding::kIdentityUnproved, kOpen, false,
       "boot 1 (baseline): the server did not say its image, declared is \"a\""},
      {"a file that was never checked",
       [](Experiment& e) {
         OfFiles(e);
         e.Boot(2).pins.clear();
       },
       Finding::kPinUnproved, kOpen, false, "boot 2 (candidate): image_file was never checked"},
      {"another command than start with the arm's in it",
       [](Experiment& e) {
         OfFiles(e);
         e.Boot(2).argv = {"srun", "--port", "$PORT", "-x"};
       },
       Finding::kArgumentsDiffer, kFail, true, "its command has \"-x\", not in the plan"},
      {"other GPUs",
       [](Experiment& e) {
         e.Boot(1).gpus = {"0", "1"};
         e.Boot(2).gpus = {"2", "3\x1b"};
       },
       Finding::kGpusDiffer, kFail, true,
       "different GPUs: GPUs 0,1 in boot 1 and GPUs 2,3\\x1b in boot 2"},
      {"GPUs allocated to one boot only", [](Experiment& e) { e.Boot(2).gpus = {"0"}; },
       Finding::kGpusDiffer, kFail, true,
       "different GPUs: GPUs 0 in boot 2 and no allocated GPUs in boot 1"},
      {"host not recorded", [](Experiment& e) { e.Boot(1).host.clear(); }, Finding::kNotRecorded,
       kOpen, true, "the host of boot 1 (baseline) is not recorded"},
      {"a boot without a record", [](Experiment& e) { e.summary().boots.pop_back(); },
       Finding::kNotRecorded, kOpen, true, "boot 2: there is no record of it"},
      {"an arm that was not run",
       [](Experiment& e) { e.summary().cases[0].arms.erase(kCandidate); }, Finding::kNotMeasured,
       kOpen, true, "candidate: no boot of it measured anything"},
      {"a round that is missing", [](Experiment& e) { e.At(kCase, kBaseline).rounds.pop_back(); },
       Finding::kNotMeasured, kOpen, true, "baseline: round 3 of 3 of boot step 1 is missing"},
  };
}

TEST(ProvenanceGate, EachProblemHasItsFindingVerdictAndSentence) {
  for (const Broken& broken : BrokenExperiments()) {
    SCOPED_TRACE(broken.name);
    Experiment e = MakeExperiment();
    broken.breaks(e);
    const GateResult result = Judge(e, Provenance());
    EXPECT_EQ(result.verdict, broken.verdict);
    EXPECT_EQ(Name(result.finding), Name(broken.finding));
    EXPECT_THAT(result.message, HasSubstr(broken.says));
    EXPECT_THAT(result.message, Not(HasSubstr("\n")));
  }
}

TEST(ProvenanceGate, TheRelativeGatesOfTheCaseAreInconclusiveToo) {
  for (const Broken& broken : BrokenExperiments()) {
    SCOPED_TRACE(broken.name);
    Experiment e = MakeExperiment();
    SetRatio(e, kCase, 1.0, 0.001);
    broken.breaks(e);
    const GateResult result = Judge(e, MaxLoss(kCase, 3));
    EXPECT_EQ(result.verdict, broken.voids_relative ? Verdict::kInconclusive : Verdict::kPass)
        << result.message;
  }
}

TEST(ProvenanceGate, AVoidRelativeGateNamesTheFinding) {
  Experiment e = MakeExperiment({"a", "b"});
  e.Round("a", kCandidate, 1).inputs = Digest('1');
  const GateResult concerned = Judge(e, MaxLoss("a", 3));
  EXPECT_EQ(concerned.finding, Finding::kInputsDiffer);
  EXPECT_FALSE(concerned.estimate.has_value());
  EXPECT_THAT(concerned.message, HasSubstr("not to be compared: a round 2: the request bodies"));
  EXPECT_EQ(Judge(e, MaxLoss("b", 3)).verdict, Verdict::kPass);
  // The candidate alone is compared with nothing.
  EXPECT_EQ(Judge(e, MinThroughput("a", 10)).verdict, Verdict::kPass);
}

TEST(ProvenanceGate, RoundsOfDifferentHostsAreNotPooledIntoALevelEither) {
  Experiment e = MakeExperiment();
  const int second = AddBoot(e, kCandidate, 3);
  SetThroughput(e, kCase, kCandidate, {950, 951, 952, 953, 954, 955});
  EXPECT_EQ(Judge(e, MinThroughput(kCase, 900)).verdict, Verdict::kPass);
  e.Boot(second).host = "node-2";
  EXPECT_EQ(Judge(e, MinThroughput(kCase, 900)).finding, Finding::kHostsDiffer);
  e.Boot(second).host = e.Boot(2).host;
  e.Boot(second).gpus = {"1"};
  EXPECT_EQ(Judge(e, MinThroughput(kCase, 900)).finding, Finding::kGpusDiffer);
}

TEST(ProvenanceGate, ThePromptsOfRoundOneComeAgainWhereThePlanSaysSo) {
  Experiment e = MakeExperiment();
  for (const char* arm : {kBaseline, kCandidate}) {
    e.Round(kCase, arm, 1).inputs = e.Round(kCase, arm, 0).inputs;
  }
  EXPECT_EQ(Judge(e, Provenance()).finding, Finding::kInputsRepeated);
  for (plan::Case& of : e.plan.workload.cases) of.prompts.fresh = false;
  EXPECT_EQ(Judge(e, Provenance()).verdict, Verdict::kPass) << Judge(e, Provenance()).message;
}

TEST(ProvenanceGate, ListsEveryProblemAndFailsBeforeItDoubts) {
  Experiment e = MakeExperiment();
  e.Boot(1).pins[0].found.clear();
  e.Boot(2).host = "node-2";
  e.Boot(2).argv.push_back("--fast");
  const GateResult result = Judge(e, Provenance());
  EXPECT_EQ(result.verdict, Verdict::kFail);
  EXPECT_THAT(result.message, HasSubstr("3 problems: boot 2 (candidate): its command"));
  EXPECT_THAT(result.message, HasSubstr("different hosts"));
  EXPECT_THAT(result.message, HasSubstr("could not be proved"));
}

TEST(ProvenanceGate, ADockerCommandIsComparedWholeAndItsImagePinned) {
  Experiment e = MakeExperiment();
  e.plan.server.launcher = plan::LauncherKind::kDocker;
  for (auto& arm : e.plan.arms) {
    arm.executable.reset();
    arm.image = "registry/vllm@sha256:" + Digest('9');
  }
  for (int number : {1, 2}) {
    e.Boot(number).pins = {{"image", Digest('9'), Digest('9')}};
    e.Boot(number).argv = {"--port", "$PORT"};
  }
  EXPECT_EQ(Judge(e, Provenance()).verdict, Verdict::kPass) << Judge(e, Provenance()).message;
  e.plan.arms[0].image = "registry/vllm:latest";
  EXPECT_EQ(Judge(e, Provenance()).finding, Finding::kPinUnproved);
}

TEST(ProvenanceGate, ADeclaredClaimAndAFilePassAndAreTold) {
  Experiment claimed = MakeExperiment();
  Claim(claimed, {{"version", "1"}}, {{"version", "1"}, {"models", "m"}});
  GateResult result = Judge(claimed, Provenance());
  EXPECT_EQ(result.verdict, Verdict::kPass) << result.message;
  EXPECT_EQ(result.finding, Finding::kIdentityClaimed);
  EXPECT_THAT(
      result.message,
      HasSubstr("pass; boot 1 (baseline): identity: claimed by the server, not proved; boot "
                "2 (candidate): identity: claimed by the server, not proved"));
  EXPECT_THAT(result.explanation, ::testing::Contains(HasSubstr("nothing to do")));

  Experiment files = MakeExperiment();
  OfFiles(files);
  result = Judge(files, Provenance());
  EXPECT_EQ(result.verdict, Verdict::kPass) << result.message;
  EXPECT_EQ(result.finding, Finding::kIdentityOfFile);
  EXPECT_THAT(result.message,
              HasSubstr("boot 2 (candidate): identity: its image's file was hashed, "
                        "what a program started from it was not"));

  // What is only told is no problem, and is told beside one.
  files.Boot(2).host = "node-2";
  result = Judge(files, Provenance());
  EXPECT_EQ(result.verdict, Verdict::kFail);
  EXPECT_THAT(result.message, HasSubstr("1 problem: "));
  EXPECT_THAT(result.message, HasSubstr("; told: boot 1 (baseline): identity: its image's file"));
}

TEST(ProvenanceGate, WhatIsNotProvedIsAConditionOfEveryDecision) {
  const auto conditions = [](const Experiment& e) {
    return JudgeAll(e.plan, "", e.evidence).conditions;
  };
  Experiment e = MakeExperiment();
  EXPECT_THAT(conditions(e), Not(::testing::Contains(HasSubstr("identity of"))));
  Claim(e, {{"image", "a\x1b"}, {"version", "1"}}, {});
  EXPECT_THAT(conditions(e),
              ::testing::Contains("identity of candidate: claimed by the server, not proved (image "
                                  "a\\x1b and version 1)"));
  Claim(e, {}, {});
  EXPECT_THAT(conditions(e),
              ::testing::Contains("identity of baseline: claimed by the server, not proved (the "
                                  "plan declares none)"));
  OfFiles(e);
  e.plan.arms[0].built_from = "registry/vllm@sha256:" + Digest('8');
  EXPECT_THAT(
      conditions(e),
      ::testing::Contains("identity of baseline: its image's file was hashed, what a program "
                          "started from it was not; built from registry/vllm@sha256:" +
                          Digest('8') + " by its plan"));
}

TEST(ProvenanceGate, AnEntrypointStandsBeforeTheCommandOfAContainer) {
  Experiment e = MakeExperiment();
  e.plan.server.launcher = plan::LauncherKind::kDocker;
  for (auto& arm : e.plan.arms) {
    arm.executable.reset();
    arm.image = "registry/vllm@sha256:" + Digest('9');
  }
  for (int number : {1, 2}) {
    e.Boot(number).pins = {{"image", Digest('9'), Digest('9')}};
    e.Boot(number).argv = {"/serve", "--fast", "--port", "$PORT"};
    e.Boot(number).server.values["image entrypoint"] = R"(["/serve","--fast"])";
  }
  EXPECT_EQ(Judge(e, Provenance()).verdict, Verdict::kPass) << Judge(e, Provenance()).message;
  // Not the image's: something that nobody wrote down was started with it.
  e.Boot(2).server.values["image entrypoint"] = R"(["/serve"])";
  EXPECT_EQ(Judge(e, Provenance()).finding, Finding::kArgumentsDiffer);
  EXPECT_THAT(Judge(e, Provenance()).message,
              HasSubstr("boot 2 (candidate): its command has \"--fast\", not in the plan"));
  // The plan's own replaces it.
  e.plan.server.docker.entrypoint = {"/serve", "--fast"};
  EXPECT_EQ(Judge(e, Provenance()).verdict, Verdict::kPass) << Judge(e, Provenance()).message;
  // Without a command in the plan the pinned image's own runs.
  e.plan.server.docker.entrypoint.reset();
  for (auto& arm : e.plan.arms) arm.command.clear();
  EXPECT_EQ(Judge(e, Provenance()).verdict, Verdict::kPass) << Judge(e, Provenance()).message;
  e.Boot(1).server.values["image entrypoint"] = "hostile";
  EXPECT_EQ(Judge(e, Provenance()).verdict, Verdict::kPass) << Judge(e, Provenance()).message;
}

TEST(ProvenanceGate, APlanWithOnlyACandidateIsJudgedByWhatThereIs) {
  Experiment e = MakeExperiment();
  e.plan.arms.erase(e.plan.arms.begin());
  e.plan.order.erase(e.plan.order.begin());
  e.summary().boots.erase(e.summary().boots.begin());
  e.summary().boots[0].step = 1;
  e.summary().cases[0].arms.erase(kBaseline);
  EXPECT_EQ(Judge(e, Provenance()).verdict, Verdict::kPass) << Judge(e, Provenance()).message;
  EXPECT_EQ(Judge(e, MaxLoss(kCase, 3)).finding, Finding::kNotMeasured);
  e.plan.arms.clear();
  EXPECT_EQ(Judge(e, Provenance()).verdict, Verdict::kInconclusive);
}

}  // namespace
}  // namespace upgrade_gate::gates
