// The real gate binary as a process: exit codes, output and fragments, and every
// way known in which such a binary goes green without a verdict.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/evidence/seal.h"
#include "framework/evidence/store.h"
#include "framework/gates/judge.h"
#include "framework/plan/plan_file.h"

namespace upgrade_gate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPlan = R"(version: 1
name: gate-binary
model: {served_name: tiny}
server:
  launcher: process
  command: [--port, $PORT]
arms:
  baseline:
    executable: {path: old, sha256: "1111111111111111111111111111111111111111111111111111111111111111"}
  candidate:
    executable: {path: new, sha256: "2222222222222222222222222222222222222222222222222222222222222222"}
boot_noise: {value: 0%, reason: simulated}
workload:
  prompts: {kind: synthetic-tokens, seed: 7}
  rounds: 3
  cases:
    - {name: short, input_tokens: 64, output_tokens: 16, concurrency: 1, requests: 100}
gates:
  - failures: {name: within, arm: candidate, kind: any, max_rate: 50%}
  - failures: {name: over, arm: candidate, kind: any, max_rate: 1%}
  - failures: {name: open, arm: candidate, kind: any, max_rate: 10%}
  - failures: {name: hint-over, arm: candidate, kind: any, max_rate: 1%, severity: advisory}
  - failures: {name: hint-open, arm: candidate, kind: any, max_rate: 10%, severity: advisory}
  - failures: {name: DISABLED_within, arm: candidate, kind: any, max_rate: 50%}
)";

struct Outcome {
  int code = -1;
  std::string out, err;
};

class GateBinary : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("gate binary " + std::to_string(getpid()));
    fs::remove_all(folder_);
    ASSERT_TRUE(base::CreateDirectories(run()));
    ASSERT_TRUE(base::WriteFile(plan(), kPlan));
    MakeEvidence();
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path run() const { return folder_ / "run"; }
  fs::path plan() const { return folder_ / "gate.yaml"; }
  fs::path fragment(const std::string& id) const { return run() / "fragments" / (id + ".json"); }

  // Sealed evidence of the plan: 10 of 100 requests of each of the candidate's
  // three rounds had no text, none of the baseline's.
  void MakeEvidence() {
    const auto loaded = plan::LoadPlan(plan());
    ASSERT_TRUE(loaded) << loaded.error().message;
    const evidence::Layout layout(run());
    evidence::CaptureRecord capture;
    capture.plan_name = loaded->plan.name;
    capture.workload = plan::WorkloadDigest(loaded->plan);
    capture.key = std::string(64, 'a');
    capture.client_sha256 = std::string(64, 'c');
    capture.host = "here";
    capture.started_at = capture.sealed_at = "2026-10-27T01:45:00.000Z";
    capture.complete = true;
    std::vector<evidence::BootRecord> boots;
    std::vector<evidence::RoundRecord> rounds;
    for (int number = 1; number <= 2; ++number) {
      evidence::BootRecord boot;
      boot.number = boot.step = number;
      boot.arm = number == 1 ? "baseline" : "candidate";
      boot.host = "here";
      boot.client_sha256 = capture.client_sha256;
      boots.push_back(boot);
      for (int round = 1; round <= 3; ++round) rounds.push_back(Round(boot, round));
    }
    const auto summary = evidence::Summarize(capture, boots, rounds, {"short"});
    ASSERT_TRUE(summary) << summary.error().message;
    ASSERT_TRUE(base::CreateDirectories(layout.evidence()));
    ASSERT_TRUE(base::WriteFile(layout.plan(), kPlan));
    ASSERT_TRUE(base::WriteFile(layout.resolved_plan(), plan::WriteResolved(loaded->plan)));
    ASSERT_TRUE(base::WriteFile(layout.summary(), evidence::WriteSummary(*summary)));
    const auto sealed = evidence::Seal(layout.evidence());
    ASSERT_TRUE(sealed) << sealed.error().message;
    digest_ = *sealed;
  }

  static evidence::RoundRecord Round(const evidence::BootRecord& boot, int number) {
    evidence::RoundRecord round;
    round.case_name = "short";
    round.arm = boot.arm;
    round.boot = round.step = boot.number;
    round.round = number;
    round.planned = 100;
    round.concurrency = 1;
    round.duration = std::chrono::seconds(10);
    for (int index = 0; index < round.planned; ++index) {
      evidence::RequestRecord request;
      request.index = index;
      request.body_sha256 = request.prompt_sha256 = std::string(64, 'b');
      request.input_tokens = 64;
      request.output_tokens = 16;
      request.times.scheduled = request.times.sent = std::chrono::milliseconds(100 * index);
      request.times.first_text = *request.times.sent + std::chrono::milliseconds(10);
      request.times.last_token = *request.times.sent + std::chrono::milliseconds(40);
      request.http_status = 200;
      request.usage = {64, 16};
      if (boot.arm == "candidate" && index % 10 == 0) {
        request.failure = {evidence::FailureKind::kEmptyOutput, "no text"};
      }
      round.requests.push_back(request);
    }
    return round;
  }

  // `before`: variables for the process, as `NAME=value`.
  Outcome Run(const std::string& arguments, const std::string& before = "",
              const char* binary = UPGRADE_GATE_BINARY) {
    const fs::path out = folder_ / "out", err = folder_ / "err";
    const std::string command = "env " + before + " " + base::ShellWord(binary) + " " + arguments +
                                " >" + base::ShellWord(out.string()) + " 2>" +
                                base::ShellWord(err.string());
    const int status = std::system(command.c_str());
    Outcome outcome;
    if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
    outcome.out = base::ReadFile(out, 1 << 20).value_or("");
    outcome.err = base::ReadFile(err, 1 << 20).value_or("");
    EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("[  SKIPPED ]"))) << command;
    return outcome;
  }

  std::string Of(const std::string& gate) const {
    return "--plan " + base::ShellWord(plan().string()) + " --run " +
           base::ShellWord(run().string()) + " --gate=" + base::ShellWord(gate);
  }

  Outcome Judge(const std::string& gate, const std::string& before = "") {
    return Run(Of(gate), before);
  }

  void PutStaleFragment(const std::string& id) {
    ASSERT_TRUE(base::CreateDirectories(fragment(id).parent_path()));
    ASSERT_TRUE(base::WriteFile(fragment(id), "yesterday's pass"));
  }

  fs::path folder_;
  base::Sha256Hex digest_;
};

TEST_F(GateBinary, ListsTheIdsAndNothingElse) {
  const Outcome outcome = Run("--plan " + base::ShellWord(plan().string()) + " --list");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "within\nover\nopen\nhint-over\nhint-open\nDISABLED_within\n");
}

TEST_F(GateBinary, PassIsZeroWithOneLineAndAFragment) {
  const Outcome outcome = Judge("within");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::StartsWith("PASS within: "));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
  const auto fragment_bytes = base::ReadFile(fragment("within"), 1 << 20);
  ASSERT_TRUE(fragment_bytes) << fragment_bytes.error().message;
  const auto read = gates::ReadFragment(*fragment_bytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->result.id, "within");
  EXPECT_EQ(read->result.verdict, gates::Verdict::kPass);
  EXPECT_EQ(read->plan, base::Sha256Of(kPlan));
  EXPECT_EQ(read->evidence, digest_);
}

TEST_F(GateBinary, FailIsTenAndInconclusiveEleven) {
  const Outcome fail = Judge("over");
  EXPECT_EQ(fail.code, 10) << fail.err;
  EXPECT_THAT(fail.out, testing::StartsWith("FAIL over: "));
  EXPECT_THAT(fail.out, HasSubstr("next: upgrade-gate explain"));
  const Outcome open = Judge("open");
  EXPECT_EQ(open.code, 11) << open.err;
  EXPECT_THAT(open.out, testing::StartsWith("INCONCLUSIVE open: "));
}

TEST_F(GateBinary, AdvisoryGateSaysSoAndEndsWithZero) {
  const Outcome fail = Judge("hint-over");
  EXPECT_EQ(fail.code, 0) << fail.err;
  EXPECT_THAT(fail.out, testing::StartsWith("ADVISORY FAIL hint-over: "));
  const Outcome open = Judge("hint-open");
  EXPECT_EQ(open.code, 0) << open.err;
  EXPECT_THAT(open.out, testing::StartsWith("ADVISORY INCONCLUSIVE hint-open: "));
}

TEST_F(GateBinary, OtherArgumentsAreRefused) {
  for (const char* arguments :
       {"--gtest_filter=-*", "--gtest_list_tests", "--gtest_repeat=0", "--help", "within", ""}) {
    EXPECT_EQ(Run(Of("within") + " " + arguments).code, *arguments == '\0' ? 0 : 12) << arguments;
  }
  EXPECT_EQ(Run("").code, 12);
  EXPECT_EQ(Run("--list").code, 12);
  EXPECT_EQ(Run(Of("within") + " --gate=over").code, 12);
  EXPECT_EQ(Run(Of("within") + " --list").code, 12);
  EXPECT_EQ(Run("--plan " + base::ShellWord(plan().string()) + " --gate=within").code, 12);
  EXPECT_EQ(Run("--plan= --list").code, 12);
}

TEST_F(GateBinary, IdIsAnExactStringAndNotAPattern) {
  for (const char* id : {"*", "with*", "within:over", "-over", "Within", "within ", "../within"}) {
    const Outcome outcome = Judge(id);
    EXPECT_EQ(outcome.code, 15) << id;
    EXPECT_THAT(outcome.err, HasSubstr("no gate has the id")) << id;
  }
  EXPECT_THAT(Judge("withn").err, HasSubstr("did you mean \"within\"?"));
}

TEST_F(GateBinary, EnvironmentOfGoogleTestCannotDeselectTheGate) {
  for (const char* before : {"GTEST_FILTER=-*", "TESTBRIDGE_TEST_ONLY=nothing",
                             "GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=1", "GTEST_REPEAT=0",
                             "GTEST_ALSO_RUN_DISABLED_TESTS=0", "GTEST_SHUFFLE=1"}) {
    const Outcome outcome = Judge("over", before);
    EXPECT_EQ(outcome.code, 10) << before << outcome.err;
    EXPECT_TRUE(fs::exists(fragment("over"))) << before;
  }
}

TEST_F(GateBinary, DisabledPrefixDoesNotDisableAGate) {
  EXPECT_EQ(Judge("DISABLED_within").code, 0);
  EXPECT_TRUE(fs::exists(fragment("DISABLED_within")));
}

TEST_F(GateBinary, MissingEvidenceIsBrokenEvidenceEvenForAdvisoryGates) {
  fs::remove_all(run() / "evidence");
  PutStaleFragment("within");
  const Outcome outcome = Judge("within");
  EXPECT_EQ(outcome.code, 14) << outcome.err;
  EXPECT_FALSE(fs::exists(fragment("within")));
  EXPECT_EQ(Judge("hint-over").code, 14);
}

TEST_F(GateBinary, ChangedEvidenceIsRefused) {
  const fs::path summary = evidence::Layout(run()).summary();
  auto bytes = base::ReadFile(summary, 1 << 20).value_or("");
  const std::size_t at = bytes.find("\"empty_output\": 30");
  ASSERT_NE(at, std::string::npos) << "the summary counts 30 failures of the candidate";
  bytes.replace(at, 18, "\"empty_output\": 00");
  ASSERT_TRUE(base::WriteFile(summary, bytes));
  PutStaleFragment("over");
  const Outcome outcome = Judge("over");
  EXPECT_EQ(outcome.code, 14) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("summary.json"));
  EXPECT_FALSE(fs::exists(fragment("over")));
}

TEST_F(GateBinary, ExtraFileInTheEvidenceIsRefused) {
  ASSERT_TRUE(base::WriteFile(run() / "evidence" / "more.json", "{}"));
  EXPECT_EQ(Judge("within").code, 14);
}

TEST_F(GateBinary, EvidenceOfAnotherCandidateIsNotThisOnes) {
  std::string changed = kPlan;
  changed.replace(changed.find("2222"), 4, "3333");
  ASSERT_TRUE(base::WriteFile(plan(), changed));
  PutStaleFragment("within");
  const Outcome outcome = Judge("within");
  EXPECT_EQ(outcome.code, 14) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("another workload"));
  EXPECT_FALSE(fs::exists(fragment("within")));
}

TEST_F(GateBinary, OtherThresholdsMayJudgeTheSameEvidence) {
  std::string changed = kPlan;
  changed.replace(changed.find("max_rate: 50%"), 13, "max_rate: 1%");
  ASSERT_TRUE(base::WriteFile(plan(), changed));
  EXPECT_EQ(Judge("within").code, 10);
}

TEST_F(GateBinary, BrokenPlanIsAUsageErrorWithItsPlace) {
  std::string changed = kPlan;
  changed.replace(changed.find("max_rate: 50%"), 8, "max_rat3");
  ASSERT_TRUE(base::WriteFile(plan(), changed));
  PutStaleFragment("within");
  const Outcome outcome = Judge("within");
  EXPECT_EQ(outcome.code, 12) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("gate.yaml:19:"));
  EXPECT_FALSE(fs::exists(fragment("within")));
  EXPECT_EQ(Run("--plan " + base::ShellWord(plan().string()) + " --list").code, 12);
}

TEST_F(GateBinary, FragmentThatCannotBeWrittenIsNoPass) {
  ASSERT_TRUE(base::WriteFile(run() / "fragments", "a file in the way"));
  EXPECT_EQ(Judge("within").code, 13);
}

TEST_F(GateBinary, OutputThatCannotBeWrittenIsNoPass) {
  EXPECT_EQ(WEXITSTATUS(std::system(
                (base::ShellWord(UPGRADE_GATE_BINARY) + " " + Of("within") + " >/dev/full 2>&1")
                    .c_str())),
            13);
}

// --- gates in C++

constexpr const char* kNativeGates = R"(  - native: {name: UpgradeTest.Within}
  - native: {name: UpgradeTest.Over}
  - native: {name: UpgradeTest.Open}
  - native: {name: UpgradeTest.OpenUnderNot}
  - native: {name: UpgradeTest.OpenBesideAPass}
  - native: {name: UpgradeTest.OpenAndPlainFailure}
  - native: {name: UpgradeTest.PlainPass}
  - native: {name: UpgradeTest.Typo}
  - native: {name: UpgradeTest.LooksAtNothing}
  - native: {name: UpgradeTest.Skips}
  - native: {name: UpgradeTest.FailsAndSkips}
  - native: {name: UpgradeTest.LossUnderNot}
  - native: {name: UpgradeTest.Exits}
  - native: {name: UpgradeTest.QuickExits}
  - native: {name: UpgradeTest.LeavesWithoutAWord}
  - native: {name: UpgradeTest.Aborts}
  - native: {name: UpgradeTest.Throws}
  - native: {name: UpgradeTest.Dies}
  - native: {name: BrokenSetUp.Within}
  - native: {name: BrokenSuite.Within}
  - native: {name: SkippingSuite.Within}
  - native: {name: of-case, test: All/OfCase.Within/0}
  - native: {name: hint, test: UpgradeTest.DISABLED_Within, severity: advisory}
)";

class NativeGates : public GateBinary {
 protected:
  void SetUp() override {
    GateBinary::SetUp();
    ASSERT_TRUE(base::WriteFile(plan(), std::string(kPlan) + kNativeGates));
  }

  Outcome Native(const std::string& gate, const std::string& before = "") {
    return Run(Of(gate), before, UPGRADE_GATE_NATIVE_BINARY);
  }
  Outcome List(const char* binary = UPGRADE_GATE_NATIVE_BINARY) {
    return Run("--plan " + base::ShellWord(plan().string()) + " --list", "", binary);
  }
  gates::GateResult Left(const std::string& id) {
    const auto bytes = base::ReadFile(fragment(id), 1 << 20);
    EXPECT_TRUE(bytes) << bytes.error().message;
    const auto read = gates::ReadFragment(bytes.value_or(""));
    EXPECT_TRUE(read) << read.error().message;
    return read ? read->result : gates::GateResult{};
  }
  void ReplacePlan(const std::string& from, const std::string& to) {
    auto text = base::ReadFile(plan(), 1 << 20).value_or("");
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    ASSERT_TRUE(base::WriteFile(plan(), text));
  }
};

struct Expected {
  const char* gate;
  int code;
  const char* verdict;  // nullptr: no fragment is left
  const char* finding;
  const char* says;  // in stdout or stderr
};

TEST_F(NativeGates, EachEndsAsItShould) {
  for (const Expected& expected : {
           Expected{"UpgradeTest.Within", 0, "pass", "none",
                    "PASS UpgradeTest.Within: arm candidate"},
           Expected{"UpgradeTest.Over", 10, "fail", "over_budget", "FAIL UpgradeTest.Over: "},
           Expected{"UpgradeTest.Open", 11, "inconclusive", "undecided",
                    "INCONCLUSIVE UpgradeTest.Open"},
           Expected{"UpgradeTest.OpenUnderNot", 11, "inconclusive", "undecided", "INCONCLUSIVE"},
           Expected{"UpgradeTest.OpenBesideAPass", 11, "inconclusive", "undecided", "INCONCLUSIVE"},
           Expected{"UpgradeTest.OpenAndPlainFailure", 10, "fail", "expectation_failed",
                    "Summary().boots.size()"},
           Expected{"UpgradeTest.PlainPass", 0, "pass", "none", "PASS"},
           Expected{"UpgradeTest.Typo", 11, "inconclusive", "not_measured",
                    "did you mean \"short\"?"},
           Expected{"UpgradeTest.LooksAtNothing", 11, "inconclusive", "not_measured",
                    "looked at no evidence"},
           Expected{"UpgradeTest.Skips", 11, "inconclusive", "not_measured", "not today"},
           Expected{"UpgradeTest.FailsAndSkips", 10, "fail", "expectation_failed",
                    "Summary().boots.size()"},
           Expected{"UpgradeTest.LossUnderNot", 0, "pass", "none", "PASS"},
           Expected{"UpgradeTest.Exits", 15, nullptr, nullptr, "ended before its gate was judged"},
           Expected{"UpgradeTest.QuickExits", 15, nullptr, nullptr,
                    "ended before its gate was judged"},
           // Nothing can catch this one; the report misses its result.
           Expected{"UpgradeTest.LeavesWithoutAWord", 0, nullptr, nullptr, ""},
           Expected{"UpgradeTest.Aborts", 134, nullptr, nullptr, ""},
           Expected{"UpgradeTest.Throws", 10, "fail", "expectation_failed", "no such thing"},
           Expected{"UpgradeTest.Dies", 0, "pass", "none", "PASS"},
           Expected{"BrokenSetUp.Within", 10, "fail", "expectation_failed",
                    "no ground to stand on"},
           Expected{"BrokenSuite.Within", 13, nullptr, nullptr, "the suite is broken"},
           Expected{"of-case", 0, "pass", "none", "PASS of-case"},
           Expected{"hint", 0, "fail", "over_budget", "ADVISORY FAIL hint"},
           Expected{"within", 0, "pass", "none", "PASS within"},
           Expected{"DISABLED_within", 0, "pass", "none", "PASS DISABLED_within"},
       }) {
    PutStaleFragment(expected.gate);
    const Outcome outcome = Native(expected.gate);
    EXPECT_EQ(outcome.code, expected.code) << expected.gate << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr(expected.says)) << expected.gate;
    ASSERT_EQ(fs::exists(fragment(expected.gate)), expected.verdict != nullptr) << expected.gate;
    if (expected.verdict == nullptr) continue;
    const gates::GateResult left = Left(expected.gate);
    EXPECT_EQ(gates::Name(left.verdict), expected.verdict) << expected.gate;
    EXPECT_EQ(gates::Name(left.finding), expected.finding) << expected.gate;
  }
}

TEST_F(NativeGates, ASuiteThatSkipsItselfIsNeverAPass) {
  // GoogleTest before 1.14 runs the tests all the same; the skip counts either way.
  const Outcome outcome = Native("SkippingSuite.Within");
  EXPECT_EQ(outcome.code, 15) << outcome.out << outcome.err;
  EXPECT_FALSE(fs::exists(fragment("SkippingSuite.Within")));
}

TEST_F(NativeGates, EnvironmentOfGoogleTestCannotDeselectTheGate) {
  for (const char* before : {"GTEST_FILTER=-*", "GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=1",
                             "GTEST_REPEAT=0", "GTEST_ALSO_RUN_DISABLED_TESTS=0",
                             "GTEST_THROW_ON_FAILURE=1", "GTEST_BREAK_ON_FAILURE=1"}) {
    EXPECT_EQ(Native("UpgradeTest.Over", before).code, 10) << before;
  }
}

TEST_F(NativeGates, ListsThemBesideThoseOfThePlan) {
  const Outcome outcome = List();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::StartsWith("within\nover\nopen\n"));
  EXPECT_THAT(outcome.out, testing::EndsWith("SkippingSuite.Within\nof-case\nhint\n"));
}

TEST_F(NativeGates, ATestThatNoGateNamesIsRefused) {
  ReplacePlan("  - native: {name: UpgradeTest.Over}\n", "");
  const Outcome outcome = List();
  EXPECT_EQ(outcome.code, 12);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              HasSubstr("no gate names the test UpgradeTest.Over, so it would never run"));
}

TEST_F(NativeGates, AGateWithoutItsTestIsRefusedWithItsPlace) {
  ReplacePlan("native: {name: UpgradeTest.Over}", "native: {name: UpgradeTest.Ower}");
  EXPECT_THAT(List().err,
              HasSubstr("gate.yaml:26:5: gate UpgradeTest.Ower: this gate binary has no test "
                        "\"UpgradeTest.Ower\" (did you mean \"UpgradeTest.Over\"?)"));
  EXPECT_EQ(Native("UpgradeTest.Ower").code, 12);
  const Outcome shipped = List(UPGRADE_GATE_BINARY);
  EXPECT_EQ(shipped.code, 12);
  EXPECT_THAT(shipped.err, HasSubstr("upgrade_gate_add(… SOURCES …)"));
}

TEST_F(NativeGates, MeasurementsComeFirstAndOneALine) {
  const Outcome outcome =
      Run(Of("UpgradeTest.Over") + " --measurements", "", UPGRADE_GATE_NATIVE_BINARY);
  EXPECT_EQ(outcome.code, 10);
  EXPECT_THAT(
      outcome.out,
      testing::StartsWith(
          "<CTestMeasurement type=\"numeric/double\" name=\"estimate\">0.1</CTestMeasurement>\n"
          "<CTestMeasurement type=\"numeric/double\" name=\"interval lower\">0.0"));
  EXPECT_THAT(outcome.out, HasSubstr("\n<CTestMeasurement type=\"numeric/double\" "
                                     "name=\"threshold\">0.01</CTestMeasurement>\nFAIL "));
}

struct Misuse {
  const char* what;
  int code;
};

TEST_F(GateBinary, MisusedBinaryIsNeverGreen) {
  for (const auto& [what, code] :
       {Misuse{"exit", 15}, Misuse{"quick-exit", 15}, Misuse{"skip", 15}, Misuse{"fail", 15},
        Misuse{"soft-fail", 13}, Misuse{"same-suite", 15}}) {
    for (const char* gate : {"within", "hint-over"}) {
      const Outcome outcome = Run(Of(gate), std::string("UPGRADE_GATE_TEST_MISUSE=") + what,
                                  UPGRADE_GATE_MISUSED_BINARY);
      EXPECT_EQ(outcome.code, code) << what << " " << gate << "\n" << outcome.out << outcome.err;
      EXPECT_FALSE(fs::exists(fragment(gate))) << what;
      EXPECT_NE(outcome.err, "") << what;
    }
  }
  EXPECT_EQ(Run(Of("within"), "", UPGRADE_GATE_MISUSED_BINARY).code, 0)
      << "without misuse it passes";
}

}  // namespace
}  // namespace upgrade_gate
