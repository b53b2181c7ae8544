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

constexpr const char* kLoadFooter =
    "Metrics of --fail-if: ttft, tpot, inter_chunk, e2e with .p50 .p90 .p95 .p99 (800ms);\n"
    "output_tokens_per_s (900tok/s); requests_per_s (2.5/s); succeeded, failures and failure\n"
    "kinds such as empty_output (1%, 0). Operators: > >= < <=. A metric without a value holds.\n"
    "Exit codes: 0 measured, 10 a --fail-if holds, 11 the client or a load that was not\n"
    "delivered spoiled the numbers, 12 usage, 13 not reached or not complete, 15 nothing sent.";

constexpr const char* kPinFooter =
    "Prints what changes as a unified diff. A tag stays beside its digest, for people and\n"
    "for --update. What has a digest is looked for at the registry and left. The login is\n"
    "docker's: $DOCKER_CONFIG or ~/.docker, with credential helpers. An image in an OCI layout,\n"
    "oci:PATH or oci:PATH:NAME, is read from that folder. Nothing is written if one image fails.\n"
    "Exit codes: 0 done, 12 an image is not there, 13 a registry cannot be asked, 15 the plan\n"
    "has no image.";

constexpr const char* kWatchdogFooter =
    "Reads the lease that a capture renews every 3 s. When that is not renewed for --grace, or\n"
    "says that the run is over, or the run's deadline has passed, and also on TERM or INT, it\n"
    "ends the run's processes and containers of this node: processes of this user by\n"
    "UPGRADE_GATE_RUN, containers by their label at the engine of DOCKER_HOST.\n"
    "Exit codes: 0 nothing of the run is left here, 12 usage, 13 no lease, or not all could be\n"
    "ended. The watchdog of a capture's own machine is started by the capture.";

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

  PinOptions pin_options;
  CLI::App* pin =
      add(app, "pin", "Tags of a plan's images to digests, asked of registries and layouts",
          [&] { return PinPlan(pin_options); });
  pin->footer(kPinFooter);
  pin->add_option("PLAN", pin_options.plan, "The plan file")->required();
  pin->add_flag("--in-place", pin_options.in_place,
                "Edit the file; comments, quotes and everything else stay as they are");
  pin->add_flag("--update", pin_options.update,
                "Look up again what is written NAME:TAG@sha256:… or oci:…, and show both");
  pin->add_option("--platform", pin_options.platform,
                  "That the images must be for, such as linux/arm64 (this machine's)");

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
  verify->add_flag("--begin-report", verify_options.begin_report,
                   "Write a failing report first, which `report` replaces");
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

  LoadOptions load_options;
  CLI::App* load =
      add(app, "load", "A load test of any endpoint", [&] { return RunLoadTest(load_options); });
  load->footer(kLoadFooter);
  load->add_option("URL", load_options.url, "http://HOST:PORT, or up to /v1 or the endpoint")
      ->required();
  load->add_option("--model", load_options.model, "The served name")->required();
  load->add_option("--input-tokens", load_options.input_tokens, "Of each request")->required();
  load->add_option("--output-tokens", load_options.output_tokens, "Of each request")->required();
  load->add_option("--concurrency", load_options.concurrency, "Closed loop: requests in flight");
  load->add_option("--rate", load_options.rate, "Open loop: requests sent a second: 2.5/s");
  load->add_option("--arrivals", load_options.arrivals, "Of --rate: poisson (default), constant");
  load->add_option("--requests", load_options.requests, "Requests of a round");
  load->add_option("--duration", load_options.duration,
                   "Of a round, instead of --requests: 60s, 10min; what is in flight then ends");
  load->add_option("--rounds", load_options.rounds, "Repetitions, each with fresh prompts (1)");
  load->add_option("--warmup", load_options.warmup,
                   "Requests before the first round, counted apart (the concurrency, or the "
                   "requests of a second)");
  load->add_option(
      "--api", load_options.api,
      "completions (default): token ids; chat: text, counted by the server where it can");
  load->add_option(
      "--stop", load_options.stop,
      "fixed (default): exactly --output-tokens; natural: the model's own end, at most "
      "so many");
  load->add_option("--acceptance", load_options.acceptance,
                   "strict (default); lenient: harmless irregularities are only noted");
  load->add_option("--stall-limit", load_options.stall_limit,
                   "The longest time without a byte (120s)");
  load->add_option("--request-timeout", load_options.request_timeout,
                   "The longest time of a request (10min)");
  load->add_option("--seed", load_options.seed,
                   "Of prompts and arrivals; one of its own for each run by default, so that no "
                   "prefix cache knows the prompts");
  load->add_option("--header", load_options.headers, "'NAME: VALUE' of every request; repeatable")
      ->allow_extra_args(false);
  load->add_option("--token-env", load_options.token_env,
                   "The environment variable that holds the bearer token");
  load->add_option("--token-file", load_options.token_file, "The file that holds it");
  load->add_option("--ca", load_options.ca_file, "PEM file of the authorities for https");
  load->add_option("--json", load_options.json,
                   "Where to write the result as JSON; -: standard output, the page then goes to "
                   "standard error");
  load->add_option("--save-vllm", load_options.save_vllm,
                   "Where to write the fields of vllm bench serve --save-result");
  load->add_option("--fail-if", load_options.fail_if,
                   "'METRIC OP VALUE': exit code 10 if it holds; repeatable")
      ->allow_extra_args(false);

  CleanupOptions cleanup_options;
  CLI::App* cleanup = add(app, "cleanup", "Show or end what dead runs left on this machine",
                          [&] { return CleanUp(cleanup_options); });
  auto* const of_run = cleanup->add_option("--run", cleanup_options.run, "Of this run's folder");
  auto* const of_all = cleanup->add_flag("--all", cleanup_options.all, "Of every dead run");
  of_run->excludes(of_all);
  cleanup->add_flag("--dry-run", cleanup_options.dry_run, "Only show it");

  WatchdogOptions watchdog_options;
  CLI::App* watchdog =
      add(app, "watchdog", "On another node: ends what a run has there once its runner is dead",
          [&] { return Watch(watchdog_options); });
  watchdog->footer(kWatchdogFooter);
  watchdog
      ->add_option("--run-id", watchdog_options.run_id,
                   "The run's id: $UPGRADE_GATE_RUN of its servers, $RUN of its commands, and in "
                   "lease.json")
      ->required();
  watchdog->add_option("--lease", watchdog_options.lease,
                       "The run's lease.json, as a file that this node sees or http(s)://…");
  watchdog->add_option("--grace", watchdog_options.grace,
                       "How long it may be without a renewal (60s)");
  watchdog->add_option("--heartbeat", watchdog_options.heartbeat, "How often it is read (5s)");
  watchdog->add_option("--wait", watchdog_options.wait, "Until the lease is there at all (5min)");
  watchdog->add_option("--ca", watchdog_options.ca_file, "PEM file of the authorities for https");

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
