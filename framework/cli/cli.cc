#include "framework/cli/cli.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <map>

#include "framework/cli/commands.h"

namespace upgrade_gate::cli {
namespace {

using base::ExitCode;
using base::Result;

constexpr const char* kFooter =
    "Exit codes: 0 accept, 10 reject, 11 inconclusive, 12 usage or plan error,\n"
    "13 infrastructure, 14 evidence broken or tampered with, 15 nothing ran.";

const std::map<std::string, Format> kFormats{{"text", Format::kText}, {"json", Format::kJson}};
const std::map<std::string, capture::WhenHeld> kWhenHeld{{"wait", capture::WhenHeld::kWait},
                                                         {"fail", capture::WhenHeld::kFail}};
const std::map<std::string, Attachments> kAttachments{{"none", Attachments::kNone},
                                                      {"absolute", Attachments::kAbsolute},
                                                      {"relative", Attachments::kRelative}};

}  // namespace

ExitCode Run(int argc, char** argv, const MomentHook& at) {
  CLI::App app{"Decides whether a language model server may be upgraded.", "upgrade-gate"};
  app.set_version_flag("--version", std::string("upgrade-gate ") + UPGRADE_GATE_VERSION);
  app.footer(kFooter);
  app.require_subcommand(1);

  std::function<Result<ExitCode>()> chosen;
  const auto add = [&chosen](CLI::App& parent, const char* name, const char* what,
                             std::function<Result<ExitCode>()> run) {
    CLI::App* command = parent.add_subcommand(name, what);
    command->callback([&chosen, run = std::move(run)] { chosen = run; });
    return command;
  };

  PlanOptions plan_options;
  CLI::App* plan = app.add_subcommand("plan", "Check or show a plan");
  plan->require_subcommand(1);
  for (CLI::App* command : {add(*plan, "check", "All errors of a plan, with line and column",
                                [&] { return CheckPlan(plan_options); }),
                            add(*plan, "show", "The resolved plan as JSON, with its digests",
                                [&] { return ShowPlan(plan_options); })}) {
    command->add_option("PLAN", plan_options.plan, "The plan file")->required();
  }

  CaptureOptions capture_options;
  CLI::App* capture = add(app, "capture", "Boot, measure and seal; resumes an unfinished run",
                          [&] { return RunCapture(capture_options, at); });
  capture->add_option("PLAN", capture_options.plan, "The plan file")->required();
  capture->add_option("--run", capture_options.run, "The run's folder")->required();
  capture
      ->add_option("--host-lock", capture_options.host_lock,
                   "While another capture measures on this machine: wait (default) or fail")
      ->transform(CLI::CheckedTransformer(kWhenHeld));

  StatusOptions status_options;
  CLI::App* status =
      add(app, "status", "Where a capture stands", [&] { return ShowStatus(status_options); });
  status->add_option("DIR", status_options.run, "The run's folder")->required();

  JudgeOptions judge_options;
  CLI::App* judge = add(app, "judge", "Verdicts and decision, from sealed evidence alone",
                        [&] { return JudgeRun(judge_options); });
  judge->add_option("DIR", judge_options.run, "The run's folder")->required();
  judge->add_option("--plan", judge_options.plan,
                    "Judge by this plan's gates; its workload must be that of the evidence");
  judge->add_option("--format", judge_options.format, "text or json")
      ->transform(CLI::CheckedTransformer(kFormats));

  ExplainOptions explain_options;
  CLI::App* explain = add(app, "explain", "The numbers, the formula and what to do, of one gate",
                          [&] { return ExplainGate(explain_options); });
  explain->add_option("DIR", explain_options.run, "The run's folder")->required();
  explain->add_option("GATE", explain_options.gate, "The gate's id")->required();
  explain->add_option("--plan", explain_options.plan, "Explain by this plan's gates");

  VerifyOptions verify_options;
  CLI::App* verify = add(app, "verify", "Check the seals and recompute the summary",
                         [&] { return VerifyRun(verify_options); });
  verify->add_option("DIR", verify_options.run, "The run's folder")->required();
  verify->add_option("--plan", verify_options.plan,
                     "The evidence must belong to this plan's workload");
  verify->add_option("--max-age", verify_options.max_age,
                     "The evidence must not have been sealed longer ago: 36h, 90min");
  verify->add_option("--format", verify_options.format, "text or json")
      ->transform(CLI::CheckedTransformer(kFormats));

  ReportOptions report_options;
  CLI::App* report = add(app, "report", "Judge and write all reports",
                         [&] { return WriteReport(report_options); });
  report->add_option("DIR", report_options.run, "The run's folder")->required();
  report->add_option("--plan", report_options.plan, "Report by this plan's gates");
  report->add_flag("--fragments", report_options.fragments,
                   "Require the result that each gate's own test leaves");
  report->add_option("--max-age", report_options.max_age,
                     "The evidence must not have been sealed longer ago: 36h, 90min");
  report
      ->add_option("--attachments", report_options.attachments,
                   "Paths of the files that junit.xml attaches: none, absolute (Jenkins) or "
                   "relative to the project (GitLab)")
      ->transform(CLI::CheckedTransformer(kAttachments));
  report->add_option("--project", report_options.project,
                     "The folder that CI checked out: attachments are relative to it (default: the "
                     "current folder), and so is the plan's file when it is given");

  WatchdogOptions watchdog_options;
  CLI::App* watchdog = add(app, "watchdog", "Ends what a dead run left; started by capture itself",
                           [&] { return Watch(watchdog_options); });
  watchdog->add_option("--run-id", watchdog_options.run_id, "The run's mark")->required();
  watchdog->group("");  // not for people

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error, std::cout, std::cerr);
    return code == 0 ? ExitCode::kAccept : ExitCode::kUsage;
  }
  const Result<ExitCode> result = chosen();
  std::fflush(stdout);
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    return base::ExitCodeOf(result.error().kind);
  }
  // A result that could not be written is no result.
  if (std::ferror(stdout) != 0) {
    std::fprintf(stderr, "standard output: could not be written\n");
    return ExitCode::kInfrastructure;
  }
  return *result;
}

}  // namespace upgrade_gate::cli
