#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "fixtures/command/cleanup.h"
#include "fixtures/command/command_launcher.h"
#include "fixtures/docker/cleanup.h"
#include "fixtures/docker/docker_launcher.h"
#include "fixtures/endpoint/endpoint_launcher.h"
#include "fixtures/process/process_launcher.h"
#include "fixtures/prompts/prompt_source.h"
#include "framework/base/clock.h"
#include "framework/base/digest.h"
#include "framework/base/file.h"
#include "framework/capture/capture.h"
#include "framework/capture/progress.h"
#include "framework/cli/commands.h"
#include "framework/cli/failing_report.h"
#include "framework/cli/signals.h"
#include "framework/load/curl_transport.h"
#include "framework/server/gpu_allocation.h"
#include "framework/server/leftovers.h"
#include "framework/server/run_argv.h"
#include "framework/server/run_id.h"
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

// What the runner has to end a boot in order, before the watchdog ends it all.
constexpr std::chrono::seconds kDeadlineGrace{60};

// The transports of a plan's load: authorities, token and the watched header.
Result<load::CurlOptions> TransportOptions(const plan::LoadedPlan& plan) {
  const plan::EndpointSettings& endpoint = plan.plan.server.endpoint;
  load::CurlOptions curl;
  if (!endpoint.ca_file.empty()) {
    curl.ca_file = (std::filesystem::absolute(plan.directory) / endpoint.ca_file).string();
  }
  if (!endpoint.token_variable.empty()) {
    UG_ASSIGN(curl.bearer_token, load::BearerTokenFromEnvironment(endpoint.token_variable));
  }
  curl.watched_header = endpoint.identity_header;
  return curl;
}

// What is left if a watchdog was killed with its runner. What cannot be ended is told
// and keeps nobody from measuring: it may be anybody's own business.
void SweepDeadRuns(const evidence::Layout& layout, const base::Clock& clock,
                   const std::function<void(const std::string&)>& say) {
  const auto left = server::FindLeftovers();
  if (!left) return say("what dead runs left could not be looked for: " + left.error().message);
  for (const auto& [run_id, processes] : *left) {
    const auto ended = server::EndLeftovers(run_id, clock);
    say(ended ? fmt::format("run {} is dead and had left processes: {} ended", run_id, *ended)
              : ended.error().message);
  }
  const auto status = capture::ReadStatus(layout);
  const auto runner = status ? server::RunnerOf(status->run_id) : std::nullopt;
  if (!runner || server::IsAlive(*runner)) return;
  for (const std::filesystem::path& record : command::FindRecords(layout.live_logs())) {
    const auto done = command::RunRecord(record);
    say(done ? "the cleanup command of a boot whose run is dead was run"
             : "what a dead run left could not be cleaned: " + done.error().message);
  }
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

struct LauncherParts {
  base::Clock& clock;
  server::Watchdog& watchdog;
  const std::string& run_id;
  endpoint::TransportFactory make_transport;
  endpoint::HeaderWatch& header_watch;
  const std::function<void(const std::string&)>& say;
};

// An engine is looked for only where containers are to be started; the watchdog knows
// how to remove what the run will have there.
Result<std::unique_ptr<server::Launcher>> MakeDocker(const LauncherParts& parts) {
  UG_ASSIGN(docker::EngineAddress address, docker::FindEngine());
  // Before connecting: a tunnel to the engine is cleaned by it too.
  UG_TRY(parts.watchdog.AddCleaner(docker::kRunCleaner, parts.run_id));
  auto connected = docker::Engine::Connect(
      std::move(address), [&](pid_t group) { return parts.watchdog.Guard(group); });
  if (!connected) {
    UG_TRY(parts.watchdog.RemoveCleaner(docker::kRunCleaner, parts.run_id));
    return tl::unexpected(connected.error());
  }
  std::shared_ptr<const docker::Engine> engine = std::move(*connected);
  SweepEngine(*engine, parts.clock, parts.say);
  return docker::MakeDockerLauncher(parts.clock, std::move(engine),
                                    docker::DefaultDockerOptions(parts.clock));
}

Result<std::unique_ptr<server::Launcher>> MakeLauncher(plan::LauncherKind kind,
                                                       const LauncherParts& parts) {
  switch (kind) {
    case plan::LauncherKind::kDocker:
      return MakeDocker(parts);
    case plan::LauncherKind::kCommand:
      return command::MakeCommandLauncher(parts.clock, parts.watchdog);
    case plan::LauncherKind::kEndpoint:
      return endpoint::MakeEndpointLauncher(parts.clock, parts.make_transport, parts.header_watch);
    case plan::LauncherKind::kProcess:
      break;
  }
  return process::MakeProcessLauncher(parts.clock, parts.watchdog);
}

// A server's kernel log is longer than a MiB.
constexpr std::size_t kHostOutput = std::size_t{16} << 20;

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
        {.time = limit, .output_bytes = kHostOutput, .interrupted = Interrupted});
  };
}

}  // namespace

Result<ExitCode> RunCapture(const CaptureOptions& options, const MomentHook& at) {
  UG_ASSIGN(const plan::LoadedPlan plan, plan::LoadPlan(options.plan));
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
  auto transport_options = TransportOptions(plan);
  if (!transport_options) {
    UG_TRY(fail_report(transport_options.error().kind, transport_options.error().message));
    return tl::unexpected(transport_options.error());
  }
  load::CurlOptions curl = std::move(*transport_options);
  CatchSignals(SecondSignal::kIgnored);

  const std::string run_id = server::MakeRunId(plan.plan.name, clock.wall());
  const std::function<void(const std::string&)> say = [](const std::string& line) {
    fmt::print(stderr, "{}\n", line);
  };
  SweepDeadRuns(layout, clock, say);
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return base::InfrastructureError("/proc/self/exe: cannot read: " + error.message());
  UG_ASSIGN(server::Watchdog watchdog, server::Watchdog::Start(self, run_id));
  std::optional<base::Instant> deadline, watched_until;
  if (plan.plan.deadline) {
    deadline = clock.now() + *plan.plan.deadline;
    const auto last = std::chrono::ceil<std::chrono::seconds>(
        *plan.plan.deadline + plan.plan.server.stop_timeout + kDeadlineGrace);
    watched_until = clock.now() + last;
    UG_TRY(watchdog.SetDeadline(last));
  }
  const auto overdue = [&] { return deadline && clock.now() >= *deadline; };
  endpoint::HeaderWatch header_watch;
  curl.on_watched_header = [&](std::string_view url, int status, std::string_view value) {
    header_watch.Take(url, status, value);
  };
  const auto make_transport = [&](int max_connections) {
    load::CurlOptions own = curl;
    own.max_connections = max_connections;
    return load::MakeCurlTransport(clock, own);
  };
  auto made =
      MakeLauncher(plan.plan.server.launcher, {.clock = clock,
                                               .watchdog = watchdog,
                                               .run_id = run_id,
                                               .make_transport = [&] { return make_transport(1); },
                                               .header_watch = header_watch,
                                               .say = say});
  if (!made) {
    UG_TRY(fail_report(made.error().kind, made.error().message));
    return tl::unexpected(made.error());
  }
  const std::unique_ptr<server::Launcher> launcher = std::move(*made);

  prompts::PromptSource source(plan.plan, plan.directory);
  const capture::Environment environment{
      .clock = clock,
      .launcher = *launcher,
      .make_transport = make_transport,
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
      .watched_until = watched_until,
      .host_lock = {*host_lock, options.host_lock},
      .share_host_lock = [&](int lock) { return watchdog.Hold(lock); },
      .redact = curl.bearer_token,
      .interrupted = [&] { return Interrupted() || overdue(); },
      .say = say,
      .at = at,
  };
  auto result = capture::Capture(plan, layout, environment);
  if (!result && overdue()) {
    result = tl::unexpected(base::At("the plan's deadline has passed", result.error()));
  }
  // A boot that could not be ended in order may have left a container.
  if (result && plan.plan.server.launcher == plan::LauncherKind::kDocker) {
    UG_TRY(watchdog.RemoveCleaner(docker::kRunCleaner, run_id));
  }
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

}  // namespace upgrade_gate::cli
