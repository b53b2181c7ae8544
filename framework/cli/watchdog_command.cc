#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "fixtures/command/cleanup.h"
#include "fixtures/docker/cleanup.h"
#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/shown_address.h"
#include "framework/base/text.h"
#include "framework/base/units.h"
#include "framework/cli/commands.h"
#include "framework/cli/signals.h"
#include "framework/load/curl_transport.h"
#include "framework/probes/fetch.h"
#include "framework/server/lease_watchdog.h"
#include "framework/server/watchdog.h"

namespace upgrade_gate::cli {
namespace {

using base::ExitCode;
using base::Result;
using std::chrono::milliseconds;

constexpr int kSocket = 3;  // to the runner that started this watchdog
constexpr std::chrono::seconds kFetchLimit{10};

// Without a runner at the other end the run would look dead, and be ended.
bool StartedByRunner() {
  struct stat status {};
  return fstat(kSocket, &status) == 0 && S_ISSOCK(status.st_mode);
}

Result<milliseconds> Duration(const char* option, const std::string& text) {
  const auto quantity = base::ReadQuantity(text);
  const auto time = quantity ? base::DurationOf(*quantity) : std::nullopt;
  if (!time || *time < milliseconds(100) || *time > std::chrono::hours(24 * 7)) {
    return base::UsageError(
        fmt::format("{}: \"{}\" is not a duration from 100ms to 168h: write "
                    "30s, 5min or 2h",
                    option, base::Visible(text)));
  }
  return std::chrono::duration_cast<milliseconds>(*time);
}

bool IsUrl(const std::string& text) {
  return text.starts_with("http://") || text.starts_with("https://");
}

Result<std::string> ReadUrl(load::Transport& transport, const std::string& url) {
  base::SystemClock clock;
  UG_ASSIGN(const probes::Fetched fetched,
            probes::Fetch(transport, clock, url, clock.now() + kFetchLimit, [] { return false; }));
  if (!fetched.problem.empty()) return base::InfrastructureError(fetched.problem);
  if (fetched.status != 200) {
    return base::InfrastructureError(fmt::format("HTTP {}", fetched.status.value_or(0)));
  }
  return fetched.body;
}

// By whoever is there: an engine that nobody named need not be, but that is said before
// it could matter, and one that is named must answer.
base::Status AddEngine(server::LeaseWatch& watch) {
  const auto address = docker::FindEngine();
  base::Status connected;
  if (!address) connected = tl::unexpected(address.error());
  if (address) {
    if (const auto engine = docker::Engine::Connect(*address); !engine) {
      connected = tl::unexpected(engine.error());
    }
  }
  if (connected) {
    watch.cleaners[docker::kRunCleaner] = docker::CleanRun;
    return {};
  }
  if (std::getenv("DOCKER_HOST") != nullptr) return connected;
  watch.say("containers are not looked for here: " + connected.error().message);
  return {};
}

Result<ExitCode> WatchByLease(const WatchdogOptions& options) {
  server::LeaseWatch watch;
  if (!base::IsPlainName(options.run_id)) {
    return base::UsageError("--run-id: \"" + base::Visible(options.run_id) +
                            "\" is not the id of a run: it is \"run_id\" in its lease.json");
  }
  watch.judge.run_id = options.run_id;
  UG_ASSIGN(watch.judge.grace, Duration("--grace", options.grace));
  UG_ASSIGN(watch.judge.wait, Duration("--wait", options.wait));
  UG_ASSIGN(watch.heartbeat, Duration("--heartbeat", options.heartbeat));
  watch.lease =
      base::Visible(IsUrl(*options.lease) ? base::WithoutLogin(*options.lease) : *options.lease);
  watch.say = [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  CatchSignals(SecondSignal::kIgnored);
  watch.told_to_end = Interrupted;
  // Both outlive this call: a reading that hangs still has them.
  static base::SystemClock clock;
  if (IsUrl(*options.lease)) {
    load::CurlOptions curl;
    curl.max_connections = 1;
    curl.ca_file = options.ca_file.value_or("");
    UG_ASSIGN(auto made, load::MakeCurlTransport(clock, curl));
    watch.read = [transport = std::shared_ptr<load::Transport>(std::move(made)),
                  url = *options.lease] { return ReadUrl(*transport, url); };
  } else {
    watch.read = [file = std::filesystem::absolute(*options.lease)] {
      return base::ReadFile(file, server::kMostLeaseBytes);
    };
  }
  UG_TRY(AddEngine(watch));
  UG_TRY(server::WatchLease(watch));
  return ExitCode::kAccept;
}

}  // namespace

Result<ExitCode> Watch(const WatchdogOptions& options) {
  if (options.lease) return WatchByLease(options);
  if (!StartedByRunner()) {
    return base::UsageError(
        "watchdog: write --lease FILE|URL: what is watched is the lease.json of the run; a "
        "capture starts the watchdog of its own machine itself");
  }
  server::RunWatchdog(
      kSocket, options.run_id,
      {{command::kArgvCleaner, command::RunCleanup}, {docker::kRunCleaner, docker::CleanRun}});
  return ExitCode::kAccept;
}

}  // namespace upgrade_gate::cli
