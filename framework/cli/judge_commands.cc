#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/cli/attachments.h"
#include "framework/cli/commands.h"
#include "framework/cli/evidence_age.h"
#include "framework/cli/failing_report.h"
#include "framework/cli/judged_run.h"
#include "framework/cli/terminal.h"
#include "framework/gates/judge.h"
#include "reports/junit/junit.h"
#include "reports/text/summary_text.h"

namespace upgrade_gate::cli {
namespace {

using base::ExitCode;
using base::Result;

text::TextOptions OptionsOf(const JudgedRun& run, text::Color color) {
  return {.color = color, .run = run.layout.run(), .plan_file = run.plan.file};
}

// Even a run that cannot be judged leaves a report, and nothing of an earlier one.
base::Status WriteBrokenReport(const ReportOptions& options, const base::Error& why) {
  const evidence::Layout layout(options.run);
  junit::JunitOptions junit_options;
  junit_options.suite_name = "upgrade-gate";
  if (options.plan) {
    junit_options.plan_file = FileInProject(options, *options.plan);
    const auto plan = plan::LoadPlan(*options.plan);
    if (plan) junit_options.suite_name = plan->plan.name;
  }
  // An attachment that cannot be named is an error of its own, said elsewhere.
  if (const auto folder = AttachmentFolder(options, layout.report()); folder) {
    junit_options.attachments = *folder;
  }
  return WriteFailingReport(layout, junit_options, why);
}

}  // namespace

Result<ExitCode> JudgeRun(const JudgeOptions& options) {
  UG_ASSIGN(const JudgedRun run, LoadAndJudge(options.run, options.plan));
  UG_TRY(WriteJudgementFolder(run));
  if (options.format == Format::kJson) {
    fmt::print("{}", gates::WriteJudgement(run.judgement, run.evidence.summary));
  } else {
    fmt::print("{}", text::RenderSummary(run.plan.plan, run.evidence.summary, run.judgement,
                                         OptionsOf(run, ColorFor(stdout))));
  }
  return gates::ExitCodeOf(run.judgement.decision);
}

Result<ExitCode> ExplainGate(const ExplainOptions& options) {
  UG_ASSIGN(const JudgedRun run, LoadAndJudge(options.run, options.plan));
  std::vector<std::string> ids;
  for (const gates::GateResult& gate : run.judgement.gates) {
    if (gate.id == options.gate) {
      fmt::print("{}", text::RenderExplanation(gate, OptionsOf(run, ColorFor(stdout))));
      return ExitCode::kAccept;
    }
    ids.push_back(gate.id);
  }
  return base::UsageError(fmt::format("{}: no gate \"{}\"{}; the gates are: {}", run.plan.file,
                                      base::Visible(options.gate),
                                      base::DidYouMean(options.gate, ids), base::JoinList(ids)));
}

namespace {

// The whole report; the value is what keeps the decision, whatever it is, from
// counting. report/ is there.
Result<std::optional<base::Error>> WriteJudgedReport(const ReportOptions& options) {
  UG_ASSIGN(const JudgedRun run, LoadAndJudge(options.run, options.plan));
  UG_TRY(WriteJudgementFolder(run));
  std::vector<std::string> missing;  // gates without a result of their own
  if (options.fragments) {
    for (const auto& [id, problem] : run.fragments.problems) missing.push_back(id);
  }

  const evidence::CaptureRecord& capture = run.evidence.summary.capture;
  std::optional<base::Error> obstacle;
  if (!missing.empty()) {
    obstacle = base::Error{base::ErrorKind::kNothingRan, "gates without a result of their own:"};
    for (const std::string& id : missing) {
      obstacle->message += "\n  " + run.fragments.problems.at(id);
    }
  } else if (!run.judgement.complete) {
    obstacle = base::Error{
        base::ErrorKind::kInfrastructure,
        "the run is not what the plan says: " + base::JoinList(run.judgement.incidents, ",")};
  } else if (options.max_age) {
    if (const auto fresh = CheckAge(capture, *options.max_age); !fresh) obstacle = fresh.error();
  }
  const auto summary = [&](text::Color color) {
    std::string page = text::RenderSummary(run.plan.plan, run.evidence.summary, run.judgement,
                                           OptionsOf(run, color));
    if (obstacle)
      page += "\nTHE DECISION DOES NOT COUNT: " + base::Visible(obstacle->message, true) + "\n";
    return page;
  };
  const auto& report = run.layout.report();
  UG_TRY(base::CreateDirectories(report / "gates"));
  for (const gates::GateResult& gate : run.judgement.gates) {
    UG_TRY(base::WriteFile(report / "gates" / (gate.id + ".txt"),
                           text::RenderExplanation(gate, OptionsOf(run, text::Color::kNever))));
  }
  UG_TRY(base::WriteFileAtomically(report / "summary.txt", summary(text::Color::kNever)));
  UG_ASSIGN(const auto attachments, AttachmentFolder(options, report));
  const std::string junit =
      junit::RenderJunit(run.plan.plan, run.evidence.summary, run.judgement, missing,
                         {.suite_name = run.plan.plan.name,
                          .plan_file = FileInProject(options, run.plan.file),
                          .timestamp = capture.started_at,
                          .hostname = capture.host,
                          .attachments = attachments,
                          .obstacle = obstacle ? obstacle->message : ""});
  UG_TRY(base::WriteFileAtomically(report / "junit.xml", junit));
  UG_TRY(base::WriteFileAtomically(
      report / "verdict.env", obstacle ? text::RenderBrokenEnv(base::ExitCodeOf(obstacle->kind))
                                       : text::RenderVerdictEnv(run.judgement)));
  fmt::print("{}", summary(ColorFor(stdout)));
  return obstacle;
}

}  // namespace

Result<ExitCode> WriteReport(const ReportOptions& options) {
  // Stands there if this process ends before it has replaced it.
  UG_TRY(WriteBrokenReport(options, {base::ErrorKind::kInfrastructure,
                                     "the report was begun and has not been finished"}));
  const auto written = WriteJudgedReport(options);
  if (!written) {
    UG_TRY(WriteBrokenReport(options, written.error()));
    return tl::unexpected(written.error());
  }
  if (*written) return tl::unexpected(**written);
  return ExitCode::kAccept;
}

}  // namespace upgrade_gate::cli
