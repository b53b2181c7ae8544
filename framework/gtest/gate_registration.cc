#include "framework/gtest/gate_registration.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/evidence/store.h"
#include "framework/gates/judge.h"
#include "framework/plan/plan_file.h"

namespace upgrade_gate::gtest {
namespace {

namespace fs = std::filesystem;
using base::ErrorKind;
using base::ExitCode;

constexpr const char* kUsage =
    "usage: --plan FILE --list, or --plan FILE --run DIR --gate=ID (GoogleTest's own flags are not "
    "taken)";

// Fit for one line of a log. CTest makes a test "Skipped" where it finds
// GoogleTest's marker, so no message may carry it.
std::string OneLine(std::string_view text) {
  std::string line = base::Visible(text);
  const std::string marker = "[  SKIPPED";
  for (std::size_t at = line.find(marker); at != std::string::npos; at = line.find(marker)) {
    line.replace(at, marker.size(), "[ SKIPPED");
  }
  return base::NeutralizeCommands(line);
}

void PrintError(const std::string& message) {
  std::string out = base::NeutralizeCommands(base::Visible(message, true)) + "\n";
  std::fputs(out.c_str(), stderr);
}

// Everything one gate's test needs and leaves.
struct GateRun {
  plan::LoadedPlan plan;
  const plan::Gate* gate = nullptr;
  evidence::SealedEvidence evidence;
  fs::path fragment;
  std::string next;  // the command that tells more

  int bodies = 0;  // how often the test's body began
  bool skipped = false;
  bool own_failure = false;  // the failure being added is the verdict
  bool other_failure = false;
  std::optional<gates::GateResult> result;
  base::Status written;
};

class GateTest : public testing::Test {
 public:
  explicit GateTest(GateRun& run) : run_(run) {}

  void TestBody() override {
    ++run_.bodies;
    const gates::GateResult result =
        gates::JudgeGate(run_.plan.plan, *run_.gate, run_.evidence.summary);
    RecordProperty("verdict", std::string(gates::Name(result.verdict)));
    RecordProperty("finding", std::string(gates::Name(result.finding)));
    RecordProperty("severity", std::string(plan::Name(result.severity)));
    run_.written = base::CreateDirectories(run_.fragment.parent_path());
    if (run_.written) {
      run_.written = base::WriteFileAtomically(run_.fragment,
                                               gates::WriteFragment(result, run_.evidence.digest));
    }
    run_.result = result;
    const bool required = result.severity == plan::Severity::kRequired;
    if (required && result.verdict != gates::Verdict::kPass) {
      run_.own_failure = true;
      ADD_FAILURE_AT(run_.plan.file.c_str(), result.location.line)
          << gates::Name(result.verdict) << ": " << base::Visible(result.message);
      run_.own_failure = false;
    }
  }

 private:
  GateRun& run_;
};

// Replaces GoogleTest's printer, which would print the SKIPPED marker.
class Watcher : public testing::EmptyTestEventListener {
 public:
  explicit Watcher(GateRun& run) : run_(run) {}

  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (part.skipped()) run_.skipped = true;
    if (!part.failed() || run_.own_failure) return;
    run_.other_failure = true;
    PrintError(OneLine(std::string(part.file_name() ? part.file_name() : "unknown file") + ":" +
                       std::to_string(part.line_number()) + ": " + part.message()));
  }

 private:
  GateRun& run_;
};

std::string Upper(std::string_view word) {
  std::string out(word);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

void PrintVerdict(const GateRun& run) {
  const gates::GateResult& result = *run.result;
  const bool passed = result.verdict == gates::Verdict::kPass;
  std::string line = Upper(gates::Name(result.verdict)) + " " + result.id + ": " + result.message;
  if (result.severity == plan::Severity::kAdvisory) line = "ADVISORY " + line;
  line = OneLine(line) + "\n";
  if (!passed) line += OneLine("next: " + run.next) + "\n";
  std::fputs(line.c_str(), stdout);
}

ExitCode CodeOf(const gates::GateResult& result) {
  if (result.severity == plan::Severity::kAdvisory) return ExitCode::kAccept;
  switch (result.verdict) {
    case gates::Verdict::kPass:
      return ExitCode::kAccept;
    case gates::Verdict::kFail:
      return ExitCode::kReject;
    case gates::Verdict::kInconclusive:
      break;
  }
  return ExitCode::kInconclusive;
}

base::Status Load(const GateArguments& arguments, GateRun& run) {
  const evidence::Layout layout(arguments.run);
  // Before anything can go wrong: yesterday's result must not stand in for today's.
  if (base::IsPlainName(arguments.gate)) {
    run.fragment = layout.fragments() / (arguments.gate + ".json");
    UG_TRY(base::RemoveAll(run.fragment));
  }
  UG_ASSIGN(run.plan, plan::LoadPlan(arguments.plan));
  run.gate = run.plan.plan.FindGate(arguments.gate);
  if (run.gate == nullptr || run.fragment.empty()) {
    std::vector<std::string> ids;
    for (const plan::Gate& gate : run.plan.plan.gates) ids.push_back(gate.id);
    return base::Fail(ErrorKind::kNothingRan,
                      run.plan.file + ": no gate has the id \"" + arguments.gate + "\"" +
                          base::DidYouMean(arguments.gate, ids) + "; --list prints them");
  }
  UG_ASSIGN(run.evidence, evidence::LoadSealed(layout));
  if (plan::WorkloadDigest(run.plan.plan) != run.evidence.summary.capture.workload) {
    return base::EvidenceError(
        layout.evidence().string() + ": is evidence of another workload than " + run.plan.file +
        ": " +
        plan::FirstDifference(plan::WriteWorkload(run.plan.plan), run.evidence.resolved_plan) +
        "; capture again with this plan");
  }
  run.next = "upgrade-gate explain " + base::ShellWord(arguments.run.string()) + " " +
             base::ShellWord(arguments.gate);
  return {};
}

// The environment must not select, repeat, split or disable the one test.
void PinGoogleTest() {
  unsetenv("GTEST_TOTAL_SHARDS");
  unsetenv("GTEST_SHARD_INDEX");
  int argc = 1;
  std::string name = "upgrade_gate_gates";
  char* argv[] = {name.data(), nullptr};
  testing::InitGoogleTest(&argc, argv);
  GTEST_FLAG_SET(filter, "*");
  GTEST_FLAG_SET(repeat, 1);
  GTEST_FLAG_SET(also_run_disabled_tests, true);
}

base::Status CheckOneTestRan(const GateRun& run) {
  const testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  if (run.bodies == 1 && run.result && !run.skipped && unit.test_to_run_count() == 1 &&
      unit.skipped_test_count() == 0) {
    return {};
  }
  return base::Fail(ErrorKind::kNothingRan,
                    run.plan.file + ": exactly the test of gate \"" + run.gate->id +
                        "\" must run, but of " + std::to_string(unit.test_to_run_count()) +
                        " tests its body ran " + std::to_string(run.bodies) + " times" +
                        (run.skipped ? ", and something was skipped" : "") +
                        "; link no other tests and no skipping environment into this binary");
}

base::Status RunOneTest(GateRun& run) {
  PinGoogleTest();
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Watcher(run));
  testing::RegisterTest(run.plan.plan.name.c_str(), run.gate->id.c_str(), nullptr, nullptr,
                        run.plan.file.c_str(), run.gate->location.line,
                        [&run]() -> testing::Test* { return new GateTest(run); });
  const int failed = RUN_ALL_TESTS();
  UG_TRY(CheckOneTestRan(run));
  UG_TRY(run.written);
  const bool expected = CodeOf(*run.result) != ExitCode::kAccept;
  if (run.other_failure || (failed != 0) != expected) {
    return base::InfrastructureError(run.plan.file + ": gate \"" + run.gate->id +
                                     "\": something beside the gate failed in this binary");
  }
  return {};
}

}  // namespace

base::Result<GateArguments> ParseArguments(const std::vector<std::string>& arguments) {
  const auto error = [](const std::string& what) { return base::UsageError(what + "\n" + kUsage); };
  std::optional<std::string> plan, run, gate;
  bool list = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (argument == "--list" && !list) {
      list = true;
      continue;
    }
    auto* value = name == "--plan"   ? &plan
                  : name == "--run"  ? &run
                  : name == "--gate" ? &gate
                                     : nullptr;
    if (value == nullptr) return error("unknown argument \"" + argument + "\"");
    if (*value) return error("doubled argument " + name);
    if (equals != std::string::npos) {
      *value = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      *value = arguments[++i];
    }
    if (!*value || (*value)->empty()) return error(name + " needs a value");
  }
  if (!plan) return error("--plan FILE is missing");
  if (list && (run || gate)) return error("--list takes neither --run nor --gate");
  if (!list && !run) return error("--run DIR is missing");
  if (!list && !gate) return error("--gate=ID is missing");
  return GateArguments{*plan, run.value_or(""), gate.value_or(""), list};
}

base::Status ListGates(const GateArguments& arguments) {
  UG_ASSIGN(const plan::LoadedPlan loaded, plan::LoadPlan(arguments.plan));
  if (loaded.plan.gates.empty()) {
    return base::Fail(ErrorKind::kNothingRan,
                      loaded.file + ": has no gates; add some under gates:");
  }
  for (const plan::Gate& gate : loaded.plan.gates) {
    std::fputs((gate.id + "\n").c_str(), stdout);
  }
  return {};
}

ExitCode RunGate(const GateArguments& arguments) {
  GateRun run;
  base::Status status = Load(arguments, run);
  if (status) status = RunOneTest(run);
  if (status) {
    PrintVerdict(run);
    return CodeOf(*run.result);
  }
  PrintError(status.error().message);
  // A result that cannot be trusted must not be found by the report.
  if (!run.fragment.empty()) {
    if (const auto removed = base::RemoveAll(run.fragment); !removed) {
      PrintError(removed.error().message);
    }
  }
  return base::ExitCodeOf(status.error().kind);
}

}  // namespace upgrade_gate::gtest
