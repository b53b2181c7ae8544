#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/cli/commands.h"
#include "framework/cli/judged_run.h"
#include "framework/gates/judge.h"
#include "reports/junit/junit.h"
#include "reports/text/summary_text.h"

namespace upgrade_gate::cli {
namespace {

using base::ExitCode;
using base::Result;

// Colour only for a person at a terminal who did not refuse it.
text::Color TerminalColor() {
  const char* no_color = std::getenv("NO_COLOR");
  const bool refused = no_color != nullptr && *no_color != '\0';
  return isatty(STDOUT_FILENO) == 1 && !refused ? text::Color::kAlways : text::Color::kNever;
}

text::TextOptions OptionsOf(const JudgedRun& run, text::Color color) {
  return {.color = color, .run = run.layout.run(), .plan_file = run.plan.file};
}

struct FragmentCheck {
  std::vector<std::string> missing;  // gate ids
  std::vector<std::string> problems;
};

// What each gate's own test left must be there, of this evidence, and say what
// the judgement says.
FragmentCheck CheckFragments(const JudgedRun& run) {
  constexpr std::uint64_t kCap = 8 << 20;
  FragmentCheck check;
  for (const gates::GateResult& gate : run.judgement.gates) {
    const auto path = run.layout.fragments() / (gate.id + ".json");
    const auto bytes = base::ReadFile(path, kCap);
    const auto problem = [&](const std::string& why) {
      check.missing.push_back(gate.id);
      check.problems.push_back(path.string() + ": " + why);
    };
    if (!bytes) {
      problem("the gate's test left no result; it did not run or did not get that far");
      continue;
    }
    const auto fragment = gates::ReadFragment(*bytes);
    if (!fragment) {
      problem(fragment.error().message);
    } else if (fragment->id != gate.id || fragment->evidence != run.evidence.digest) {
      problem("is of another gate or other evidence; run the gate's test again");
    } else if (fragment->verdict != gate.verdict) {
      problem(fmt::format("says {}, the judgement says {}; was the plan edited in between?",
                          gates::Name(fragment->verdict), gates::Name(gate.verdict)));
    }
  }
  return check;
}

// Even a run that cannot be judged leaves a report, and it fails.
base::Status WriteBrokenReport(const ReportOptions& options, const std::string& message) {
  const evidence::Layout layout(options.run);
  junit::JunitOptions junit_options;
  junit_options.suite_name = "upgrade-gate";
  if (options.plan) junit_options.plan_file = options.plan->string();
  UG_TRY(base::CreateDirectories(layout.report()));
  return base::WriteFileAtomically(layout.report() / "junit.xml",
                                   junit::RenderBroken(message, junit_options));
}

}  // namespace

Result<ExitCode> JudgeRun(const JudgeOptions& options) {
  UG_ASSIGN(const JudgedRun run, LoadAndJudge(options.run, options.plan));
  UG_TRY(WriteJudgementFolder(run));
  if (options.format == Format::kJson) {
    fmt::print("{}", gates::WriteJudgement(run.judgement, run.evidence.summary));
  } else {
    fmt::print("{}", text::RenderSummary(run.plan.plan, run.evidence.summary, run.judgement,
                                         OptionsOf(run, TerminalColor())));
  }
  return ExitCodeOf(run.judgement.decision);
}

Result<ExitCode> ExplainGate(const ExplainOptions& options) {
  UG_ASSIGN(const JudgedRun run, LoadAndJudge(options.run, options.plan));
  std::vector<std::string> ids;
  for (const gates::GateResult& gate : run.judgement.gates) {
    if (gate.id == options.gate) {
      fmt::print("{}", text::RenderExplanation(gate, OptionsOf(run, TerminalColor())));
      return ExitCode::kAccept;
    }
    ids.push_back(gate.id);
  }
  return base::UsageError(fmt::format("{}: no gate \"{}\"{}; the gates are: {}", run.plan.file,
                                      base::Visible(options.gate), base::DidYouMean(options.gate, ids),
                                      base::JoinList(ids)));
}

Result<ExitCode> WriteReport(const ReportOptions& options) {
  const auto judged = LoadAndJudge(options.run, options.plan);
  if (!judged) {
    UG_TRY(WriteBrokenReport(options, judged.error().message));
    return tl::unexpected(judged.error());
  }
  const JudgedRun& run = *judged;
  UG_TRY(WriteJudgementFolder(run));
  const FragmentCheck fragments = options.fragments ? CheckFragments(run) : FragmentCheck{};

  const evidence::CaptureRecord& capture = run.evidence.summary.capture;
  const junit::JunitOptions junit_options{.suite_name = run.plan.plan.name,
                                          .plan_file = run.plan.file,
                                          .timestamp = capture.sealed_at,
                                          .hostname = capture.host};
  const auto summary = [&](text::Color color) {
    return text::RenderSummary(run.plan.plan, run.evidence.summary, run.judgement,
                               OptionsOf(run, color));
  };
  const auto& report = run.layout.report();
  UG_TRY(base::CreateDirectories(report));
  UG_TRY(base::WriteFileAtomically(report / "summary.txt", summary(text::Color::kNever)));
  UG_TRY(base::WriteFileAtomically(
      report / "junit.xml", junit::RenderJunit(run.plan.plan, run.evidence.summary, run.judgement,
                                               fragments.missing, junit_options)));
  UG_TRY(base::WriteFileAtomically(report / "verdict.env", text::RenderVerdictEnv(run.judgement)));
  fmt::print("{}", summary(TerminalColor()));

  if (!fragments.problems.empty()) {
    std::string message = "gates without a result of their own:";
    for (const std::string& problem : fragments.problems) message += "\n  " + problem;
    return base::Fail(base::ErrorKind::kNothingRan, message);
  }
  if (!run.judgement.complete) {
    return base::InfrastructureError("the run is not what the plan says: " +
                                     base::JoinList(run.judgement.incidents, ","));
  }
  return ExitCode::kAccept;
}

}  // namespace upgrade_gate::cli
