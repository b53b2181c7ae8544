// One function a command; options as the command line gives them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/exit_code.h"
#include "framework/capture/host_lock.h"
#include "framework/cli/cli.h"

namespace upgrade_gate::cli {

enum class Format { kText, kJson };

struct PlanOptions {
  std::filesystem::path plan;
};
base::Result<base::ExitCode> CheckPlan(const PlanOptions& options);
base::Result<base::ExitCode> ShowPlan(const PlanOptions& options);

struct PinOptions {
  std::filesystem::path plan;
  bool in_place = false;
  bool update = false;                  // look up again what has a tag beside its digest
  std::optional<std::string> platform;  // absent: this machine's
};
base::Result<base::ExitCode> PinPlan(const PinOptions& options);

struct CaptureOptions {
  std::filesystem::path plan;
  std::filesystem::path run;
  capture::WhenHeld host_lock = capture::WhenHeld::kWait;
};
base::Result<base::ExitCode> RunCapture(const CaptureOptions& options, const MomentHook& at);

struct StatusOptions {
  std::filesystem::path run;
};
base::Result<base::ExitCode> ShowStatus(const StatusOptions& options);

struct JudgeOptions {
  std::filesystem::path run;
  std::optional<std::filesystem::path> plan;
  Format format = Format::kText;
};
base::Result<base::ExitCode> JudgeRun(const JudgeOptions& options);

struct ExplainOptions {
  std::filesystem::path run;
  std::string gate;
  std::optional<std::filesystem::path> plan;
};
base::Result<base::ExitCode> ExplainGate(const ExplainOptions& options);

struct VerifyOptions {
  std::filesystem::path run;
  std::optional<std::filesystem::path> plan;  // the evidence must belong to its workload
  std::optional<std::string> max_age;         // "36h": sealed no longer ago
  bool begin_report = false;                  // a failing report first: judging follows
  Format format = Format::kText;
};
base::Result<base::ExitCode> VerifyRun(const VerifyOptions& options);

// How junit.xml names the files that it attaches: Jenkins takes absolute paths,
// GitLab paths relative to the project.
enum class Attachments { kNone, kAbsolute, kRelative };

struct ReportOptions {
  std::filesystem::path run;
  std::optional<std::filesystem::path> plan;
  bool fragments = false;  // every gate's own test must have left its result
  std::optional<std::string> max_age;
  Attachments attachments = Attachments::kNone;
  std::optional<std::filesystem::path> project;  // absent: the current folder
};
base::Result<base::ExitCode> WriteReport(const ReportOptions& options);

// As given, unread: load_settings.h reads them.
struct LoadOptions {
  std::string url;
  std::string model;
  std::string input_tokens, output_tokens;
  std::optional<std::string> concurrency, rate, arrivals, requests, duration;
  std::optional<std::string> rounds, warmup, api, stop, acceptance, stall_limit, request_timeout,
      seed;
  std::vector<std::string> headers;
  std::optional<std::string> token_env, token_file, ca_file;
  std::optional<std::string> json, save_vllm;
  std::vector<std::string> fail_if;
};
base::Result<base::ExitCode> RunLoadTest(const LoadOptions& options);

struct CleanupOptions {
  std::optional<std::filesystem::path> run;  // of one run; absent: of all dead runs
  bool all = false;
  bool dry_run = false;
};
base::Result<base::ExitCode> CleanUp(const CleanupOptions& options);

struct WatchdogOptions {
  std::string run_id;
  std::optional<std::string> lease;  // a file or a URL; absent: started by a runner
  std::string grace = "60s", heartbeat = "5s", wait = "5min";
  std::optional<std::string> ca_file;
};
base::Result<base::ExitCode> Watch(const WatchdogOptions& options);

}  // namespace upgrade_gate::cli
