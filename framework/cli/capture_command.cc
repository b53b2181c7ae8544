#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "fixtures/docker/cleanup.h"
#include "fixtures/docker/docker_launcher.h"
#include "fixtures/process/process_launcher.h"
#include "fixtures/prompts/prompt_source.h"
#include "framework/base/clock.h"
#include "framework/base/digest.h"
#include "framework/base/file.h"
#include "framework/capture/capture.h"
#include "framework/cli/commands.h"
#include "framework/cli/failing_report.h"
#include "framework/cli/signals.h"
#include "framework/load/curl_transport.h"
#include "framework/server/gpu_allocation.h"
#include "framework/server/run_argv.h"
#include "framework/server/watchdog.h"

namespace upgrade_gate::cli {
namespace {

using base::ExitCode;
using base::Result;

// The host's name, and a hash of its machine id where it has one: two hosts of
// one name are told apart, and the id itself is not given away.
std::string HostIdentity() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) name[0] = '\0';
  constexpr std::uint64_t kCap = 4096;
  const auto id = base::ReadFile("/etc/machine-id", kCap);
  return std::string(name) + (id && !id->empty() ? "-" + base::Sha256Of(*id).substr(0, 12) : "");
}

Result<capture::Client> Self() {
  UG_ASSIGN(base::Sha256Hex digest, base::Sha256OfFile("/proc/self/exe"));
  return capture::Client{UPGRADE_GATE_VERSION, std::move(digest), HostIdentity()};
}

// Removes what dead runs left in the engine. What cannot be removed is told and keeps
// nobody from measuring.
void SweepEngine(const docker::Engine& engine, const base::Clock& clock,
                 const std::function<void(const std::string&)>& say) {
  const auto swept = docker::SweepExpired(engine, clock.wall());
  if (!swept) return say("what dead runs left cannot be removed: " + swept.error().message);
  for (const std::string& name : swept->containers) {
    say("container " + name + " of a dead run: removed");
  }
}

// An engine is looked for only where containers are to be started.
Result<std::unique_ptr<server::Launcher>> MakeLauncher(
    plan::LauncherKind kind, base::Clock& clock, server::Watchdog& watchdog,
    const std::function<void(const std::string&)>& say) {
  if (kind != plan::LauncherKind::kDocker) return process::MakeProcessLauncher(clock, watchdog);
  UG_ASSIGN(docker::EngineAddress address, docker::FindEngine());
  UG_ASSIGN(auto engine, docker::Engine::Connect(std::move(address)));
  SweepEngine(*engine, clock, say);
  return docker::MakeDockerLauncher(clock, std::move(engine), docker::DefaultDockerOptions(clock));
}

// Commands of the plan and of the host, with this process's own environment.
server::RunArgv HostCommands(const std::filesystem::path& directory) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return [directory, variables](const std::vector<std::string>& argv,
                                std::chrono::milliseconds limit) {
    return server::RunCommand(
        {.argv = argv, .environment = variables, .working_directory = directory},
        {.time = limit, .output_bytes = std::size_t{1} << 20, .interrupted = Interrupted});
  };
}

}  // namespace

Result<ExitCode> RunCapture(const CaptureOptions& options, const MomentHook& at) {
  UG_ASSIGN(const plan::LoadedPlan plan, plan::LoadPlan(options.plan));
  const plan::LauncherKind launched = plan.plan.server.launcher;
  if (launched != plan::LauncherKind::kProcess && launched != plan::LauncherKind::kDocker) {
    return base::UsageError(fmt::format(
        "{}: launcher \"{}\" can be checked and judged but not booted by this version, which "
        "boots: process, docker",
        plan.file, plan::Name(launched)));
  }
  base::SystemClock clock;
  UG_ASSIGN(const capture::Client client, Self());
  const evidence::Layout layout(std::filesystem::absolute(options.run));
  const auto fail_report = [&](base::ErrorKind kind, const std::string& message) {
    return WriteFailingReport(layout,
                              {.suite_name = plan.plan.name,
                               .plan_file = plan.file,
                               .timestamp = base::FormatUtc(clock.wall()),
                               .hostname = client.host},
                              base::Error{kind, message});
  };
  // Stands there until a better one replaces it.
  UG_TRY(fail_report(base::ErrorKind::kInfrastructure,
                     "the capture has started and has not finished"));
  const auto host_lock = capture::HostLockFile(std::getenv(capture::kHostLockVariable));
  if (!host_lock) {
    UG_TRY(fail_report(host_lock.error().kind, host_lock.error().message));
    return tl::unexpected(host_lock.error());
  }
  const auto gpus = server::AllocatedGpus([](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  if (!gpus) {
    UG_TRY(fail_report(gpus.error().kind, gpus.error().message));
    return tl::unexpected(gpus.error());
  }
  CatchSignals(SecondSignal::kIgnored);

  // A plain name of at most 64 bytes: it marks processes and stands in an argv.
  const std::string run_id = fmt::format("{}-{}-{}", plan.plan.name.substr(0, 32), getpid(),
                                         clock.wall().time_since_epoch().count());
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return base::InfrastructureError("/proc/self/exe: cannot read: " + error.message());
  UG_ASSIGN(server::Watchdog watchdog, server::Watchdog::Start(self, run_id));
  const auto say = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  auto made = MakeLauncher(launched, clock, watchdog, say);
  if (!made) {
    UG_TRY(fail_report(made.error().kind, made.error().message));
    return tl::unexpected(made.error());
  }
  const std::unique_ptr<server::Launcher> launcher = std::move(*made);

  prompts::PromptSource source(plan.plan, plan.directory);
  const capture::Environment environment{
      .clock = clock,
      .launcher = *launcher,
      .make_transport =
          [&clock](int max_connections) {
            load::CurlOptions curl;
            curl.max_connections = max_connections;
            return load::MakeCurlTransport(clock, curl);
          },
      .prompts =
          [&source](const plan::Case& of, evidence::Phase phase, int round, int count,
                    load::Tokenizer& tokenizer) {
            return source.Make(of, phase, round, count, tokenizer);
          },
      .check_prompts = [&source] { return source.CheckFiles(); },
      .client = client,
      .gpus = *gpus,
      .host = {.root = "/", .run = HostCommands(plan.directory)},
      .run_id = run_id,
      .host_lock = {*host_lock, options.host_lock},
      .interrupted = Interrupted,
      .say = say,
      .at = at,
  };
  const auto result = capture::Capture(plan, layout, environment);
  // Results of gates belong to the evidence that was there before.
  if (!result || result->outcome != capture::Outcome::kReused) {
    UG_TRY(base::RemoveAll(layout.fragments()));
  }
  if (!result) {
    UG_TRY(fail_report(result.error().kind, result.error().message));
    return tl::unexpected(result.error());
  }
  fmt::print("evidence: {}\nsha256:{}\n", layout.evidence().string(), result->evidence);
  if (result->outcome != capture::Outcome::kIncomplete) return ExitCode::kAccept;

  std::string message = "the run is not what the plan says:";
  for (const std::string& incident : result->incidents) message += "\n  " + incident;
  message += "\nthe evidence is sealed and can be judged; the same command measures anew";
  UG_TRY(fail_report(base::ErrorKind::kInfrastructure, message));
  return base::InfrastructureError(message);
}

Result<ExitCode> Watch(const WatchdogOptions& options) {
  constexpr int kPipe = 3;
  server::RunWatchdog(kPipe, options.run_id);
  return ExitCode::kAccept;
}

}  // namespace upgrade_gate::cli
