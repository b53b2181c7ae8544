#include "framework/gtest/gate_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/evidence/store.h"
#include "framework/gates/judge.h"
#include "framework/gates/wording.h"
#include "framework/gtest/native_result.h"
#include "framework/gtest/session.h"
#include "framework/plan/plan_file.h"

namespace upgrade_gate::gtest {
namespace {

namespace fs = std::filesystem;
using base::ErrorKind;
using base::ExitCode;

constexpr const char* kUsage =
    "usage: --plan FILE --list, or --plan FILE --run DIR --gate=ID [--measurements] (GoogleTest's "
    "own flags are not taken)";

// The suite of a gate that is not native. Its tests are registered one a
// process, so that a filter by the suite runs exactly that one, whatever its name.
constexpr const char* kPlanSuite = "PlanGates";

// CTest makes a test "Skipped" where it finds GoogleTest's marker, so no output
// of ours may carry it.
std::string Unmarked(std::string text) {
  const std::string marker = "[  SKIPPED";
  for (std::size_t at = text.find(marker); at != std::string::npos; at = text.find(marker)) {
    text.replace(at, marker.size(), "[ SKIPPED");
  }
  return base::NeutralizeCommands(text);
}

std::string OneLine(std::string_view text) {
  return Unmarked(base::Visible(text));
}

void PrintError(std::string_view message) {
  std::fputs((Unmarked(base::Visible(message, true)) + "\n").c_str(), stderr);
}

// Everything one gate's test needs and leaves.
struct GateRun {
  plan::LoadedPlan plan;
  const plan::Gate* gate = nullptr;
  evidence::SealedEvidence evidence;
  fs::path fragment;
  std::string next;  // the command that tells more
  bool measurements = false;

  int bodies = 0;              // how often a test began
  bool in_test = false;        // between its begin and its end
  bool own_failure = false;    // the failure being added is the verdict of a plan's gate
  bool stray_failure = false;  // outside the test: in an environment or a suite's set-up
  bool stray_skip = false;
  TestRun test;  // of a native gate
  std::optional<gates::GateResult> result;

  const plan::NativeGate* native() const { return std::get_if<plan::NativeGate>(&gate->rule); }
};

class PlanGateTest : public testing::Test {
 public:
  explicit PlanGateTest(GateRun& run) : run_(run) {}

  void TestBody() override {
    const gates::GateResult result =
        gates::JudgeGate(run_.plan.plan, *run_.gate, run_.evidence.summary);
    RecordProperty("verdict", std::string(gates::Name(result.verdict)));
    RecordProperty("finding", std::string(gates::Name(result.finding)));
    RecordProperty("severity", std::string(plan::Name(result.severity)));
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
  Watcher(GateRun& run, Session& session) : run_(run), session_(session) {}

  void OnTestStart(const testing::TestInfo&) override {
    ++run_.bodies;
    run_.in_test = true;
  }
  void OnTestEnd(const testing::TestInfo&) override { run_.in_test = false; }

  void OnTestPartResult(const testing::TestPartResult& part) override {
    const std::string text = std::string(part.file_name() ? part.file_name() : "unknown file") +
                             ":" + std::to_string(part.line_number()) + ": " + part.message();
    const bool of_native_test = run_.in_test && run_.native() != nullptr;
    if (part.skipped()) {
      if (of_native_test) run_.test.skipped = text;
      if (!of_native_test) run_.stray_skip = true;
    }
    if (!part.failed() || run_.own_failure) return;
    PrintError(text);
    if (of_native_test) {
      run_.test.failures.push_back({text, session_.TakeFailure()});
    } else {
      run_.stray_failure = true;
    }
  }

 private:
  GateRun& run_;
  Session& session_;
};

std::string Upper(std::string_view word) {
  std::string out(word);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

// What CDash plots over time: one tag a line, since several on one are all lost.
void PrintMeasurements(const gates::GateResult& result) {
  const auto print = [](const std::string& name, const std::optional<double>& value) {
    if (!value || !std::isfinite(*value)) return;
    std::fputs(("<CTestMeasurement type=\"numeric/double\" name=\"" + name + "\">" +
                gates::Number(*value) + "</CTestMeasurement>\n")
                   .c_str(),
               stdout);
  };
  const auto print_all = [&](const std::string& prefix, const auto& of) {
    print(prefix + "estimate", of.estimate);
    print(prefix + "interval lower",
          of.interval ? std::optional(of.interval->lower) : std::nullopt);
    print(prefix + "interval upper",
          of.interval ? std::optional(of.interval->upper) : std::nullopt);
  };
  print_all("", result);
  print("threshold", result.margin);
  for (const gates::CaseResult& of : result.cases) {
    if (!base::IsPlainName(of.case_name)) continue;
    print(of.case_name + " baseline", of.baseline);
    print(of.case_name + " candidate", of.candidate);
    if (result.cases.size() > 1) print_all(of.case_name + " ", of);
  }
}

void PrintVerdict(const GateRun& run) {
  const gates::GateResult& result = *run.result;
  if (run.measurements) PrintMeasurements(result);
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

// The environment must not select, repeat, split or disable the one test.
void PinGoogleTest(const std::string& filter) {
  unsetenv("GTEST_TOTAL_SHARDS");
  unsetenv("GTEST_SHARD_INDEX");
  int argc = 1;
  std::string name = "upgrade_gate_gates";
  char* argv[] = {name.data(), nullptr};
  testing::InitGoogleTest(&argc, argv);
  GTEST_FLAG_SET(filter, filter);
  GTEST_FLAG_SET(repeat, 1);
  GTEST_FLAG_SET(output, "");
  // A failure is a verdict: it must not end the process.
  GTEST_FLAG_SET(break_on_failure, false);
  GTEST_FLAG_SET(throw_on_failure, false);
  GTEST_FLAG_SET(catch_exceptions, true);
  GTEST_FLAG_SET(also_run_disabled_tests, true);
}

// Full names of the tests that were written into this binary. Needs InitGoogleTest,
// which makes the parameterised ones.
std::vector<std::string> LinkedTests() {
  std::vector<std::string> names;
  const testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  for (int s = 0; s < unit.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *unit.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      names.push_back(std::string(suite.name()) + "." + suite.GetTestInfo(t)->name());
    }
  }
  return names;
}

bool IsDisabled(const std::string& test) {
  return test.starts_with("DISABLED_") || test.find(".DISABLED_") != std::string::npos ||
         test.find("/DISABLED_") != std::string::npos;
}

// Every native gate of the plan has its test here, and every test here its gate.
base::Status CheckLinkedTests(const plan::LoadedPlan& loaded) {
  const std::vector<std::string> linked = LinkedTests();
  const auto has = [](const std::vector<std::string>& list, const std::string& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  };
  std::vector<std::string> named;
  std::string problems;
  for (const plan::Gate& gate : loaded.plan.gates) {
    const auto* native = std::get_if<plan::NativeGate>(&gate.rule);
    if (native == nullptr) continue;
    named.push_back(native->test);
    if (has(linked, native->test)) continue;
    problems += loaded.file + ":" + std::to_string(gate.location.line) + ":" +
                std::to_string(gate.location.column) + ": gate " + gate.id +
                ": this gate binary has no test \"" + native->test + "\"" +
                base::DidYouMean(native->test, linked) +
                "; give its source to upgrade_gate_add(… SOURCES …)\n";
  }
  for (const std::string& test : linked) {
    if (has(named, test) || IsDisabled(test)) continue;
    problems += loaded.file + ": no gate names the test " + base::Visible(test) +
                ", so it would never run; add \"- native: {name: …, test: " + base::Visible(test) +
                "}\" to gates, or take the test out of this binary\n";
  }
  if (problems.empty()) return {};
  problems.pop_back();
  return base::UsageError(problems);
}

base::Status Load(const GateArguments& arguments, GateRun& run) {
  const evidence::Layout layout(arguments.run);
  run.measurements = arguments.measurements;
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

base::Status CheckOneTestRan(const GateRun& run) {
  const testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  // A native test that skips itself ran, and has a verdict.
  const int skipped = run.test.skipped && run.test.failures.empty() ? 1 : 0;
  if (run.bodies == 1 && !run.stray_skip && unit.test_to_run_count() == 1 &&
      unit.skipped_test_count() == skipped && (run.native() != nullptr || run.result)) {
    return {};
  }
  return base::Fail(
      ErrorKind::kNothingRan,
      run.plan.file + ": exactly the test of gate \"" + run.gate->id + "\" must run, but of " +
          std::to_string(unit.test_to_run_count()) + " tests " + std::to_string(run.bodies) +
          " began" + (run.stray_skip ? ", and something was skipped" : "") +
          "; link no skipping environment and no other suite " + kPlanSuite + " into this binary");
}

base::Status WriteResult(const GateRun& run) {
  UG_TRY(base::CreateDirectories(run.fragment.parent_path()));
  return base::WriteFileAtomically(
      run.fragment,
      gates::WriteFragment({*run.result, run.evidence.digest, base::Sha256Of(run.plan.yaml)}));
}

base::Status RunOneTest(GateRun& run) {
  const plan::NativeGate* native = run.native();
  PinGoogleTest(native != nullptr ? native->test : std::string(kPlanSuite) + ".*");
  if (native != nullptr) UG_TRY(CheckLinkedTests(run.plan));
  Session session(run.plan.plan, run.evidence.summary);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Watcher(run, session));
  if (native == nullptr) {
    testing::RegisterTest(kPlanSuite, run.gate->id.c_str(), nullptr, nullptr, run.plan.file.c_str(),
                          run.gate->location.line,
                          [&run]() -> testing::Test* { return new PlanGateTest(run); });
  }
  const int failed = RUN_ALL_TESTS();
  UG_TRY(CheckOneTestRan(run));
  if (native != nullptr) run.result = NativeResult(*run.gate, session, run.test);
  const bool expected =
      native != nullptr ? !run.test.failures.empty() : CodeOf(*run.result) != ExitCode::kAccept;
  if (run.stray_failure || (failed != 0) != expected) {
    return base::InfrastructureError(run.plan.file + ": gate \"" + run.gate->id +
                                     "\": something beside the gate failed in this binary");
  }
  return WriteResult(run);
}

}  // namespace

base::Result<GateArguments> ParseArguments(const std::vector<std::string>& arguments) {
  const auto error = [](const std::string& what) { return base::UsageError(what + "\n" + kUsage); };
  std::optional<std::string> plan, run, gate;
  bool list = false;
  bool measurements = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (argument == "--list" && !list) {
      list = true;
      continue;
    }
    if (argument == "--measurements" && !measurements) {
      measurements = true;
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
  if (list && (run || gate || measurements)) {
    return error("--list takes neither --run nor --gate nor --measurements");
  }
  if (!list && !run) return error("--run DIR is missing");
  if (!list && !gate) return error("--gate=ID is missing");
  return GateArguments{*plan, run.value_or(""), gate.value_or(""), list, measurements};
}

base::Status ListGates(const GateArguments& arguments) {
  UG_ASSIGN(const plan::LoadedPlan loaded, plan::LoadPlan(arguments.plan));
  if (loaded.plan.gates.empty()) {
    return base::Fail(ErrorKind::kNothingRan,
                      loaded.file + ": has no gates; add some under gates:");
  }
  PinGoogleTest("*");
  UG_TRY(CheckLinkedTests(loaded));
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
