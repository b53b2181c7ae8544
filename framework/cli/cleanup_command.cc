#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/command/cleanup.h"
#include "fixtures/docker/cleanup.h"
#include "framework/base/clock.h"
#include "framework/base/text.h"
#include "framework/capture/progress.h"
#include "framework/cli/commands.h"
#include "framework/server/leftovers.h"
#include "framework/server/run_id.h"

namespace upgrade_gate::cli {

using base::ExitCode;
using base::Result;

namespace {

// The containers of one run, or of all dead ones where there is no id.
Result<std::vector<std::string>> CleanContainers(const docker::Engine& engine,
                                                 const std::string& run_id, bool dry_run) {
  const base::WallTime now = base::SystemClock().wall();
  if (dry_run) {
    return run_id.empty() ? docker::FindExpired(engine, now) : docker::FindRun(engine, run_id);
  }
  UG_ASSIGN(docker::Removed removed,
            run_id.empty() ? docker::SweepExpired(engine, now) : docker::RemoveRun(engine, run_id));
  return std::move(removed.containers);
}

// Prints what it did and returns how many containers there were. The engine that
// nobody named need not be there, nor let this user in.
Result<std::size_t> CleanEngine(const std::string& run_id, bool dry_run) {
  UG_ASSIGN(docker::EngineAddress address, docker::FindEngine());
  const auto engine = docker::Engine::Connect(std::move(address));
  if (!engine && std::getenv("DOCKER_HOST") == nullptr) {
    fmt::print(stderr, "containers were not looked for: {}\n", engine.error().message);
    return std::size_t{0};
  }
  if (!engine) return tl::unexpected(engine.error());
  UG_ASSIGN(const auto containers, CleanContainers(**engine, run_id, dry_run));
  for (const std::string& name : containers) {
    fmt::print("container {}{}\n", name, dry_run ? "" : " removed");
  }
  return containers.size();
}

}  // namespace

Result<ExitCode> CleanUp(const CleanupOptions& options) {
  if (!options.all && !options.run) {
    return base::UsageError("cleanup: say of which run: --run DIR, or --all");
  }
  UG_ASSIGN(auto left, server::FindLeftovers());
  std::string run_id;
  std::vector<std::filesystem::path> records;
  if (options.run) {
    const evidence::Layout layout(std::filesystem::absolute(*options.run));
    const auto status = capture::ReadStatus(layout);
    if (!status) {
      return base::UsageError(options.run->string() +
                              ": does not say what run it is of: " + status.error().message);
    }
    const auto runner = server::RunnerOf(status->run_id);
    if (runner && server::IsAlive(*runner)) {
      return base::UsageError(fmt::format("{}: its runner (pid {}) is alive; nothing was ended",
                                          options.run->string(), runner->pid));
    }
    run_id = status->run_id;
    records = command::FindRecords(layout.live_logs());
    std::erase_if(left, [&](const auto& entry) { return entry.first != run_id; });
  }
  const base::SystemClock clock;
  std::string problems;
  for (const auto& [dead_run, processes] : left) {
    fmt::print("run {} (dead)\n", dead_run);
    for (const server::Process& process : processes) {
      fmt::print("  {}\n", server::Describe(process));
    }
    if (options.dry_run) continue;
    if (const auto ended = server::EndLeftovers(dead_run, clock); ended) {
      fmt::print("  {} ended\n", *ended);
    } else {
      problems += (problems.empty() ? "" : "\n") + ended.error().message;
    }
  }
  for (const std::filesystem::path& record : records) {
    const auto described = command::DescribeRecord(record);
    fmt::print("cleanup that was not done: {}\n",
               described ? *described : described.error().message);
    if (options.dry_run) continue;
    if (const auto done = command::RunRecord(record); !done) {
      problems += (problems.empty() ? "" : "\n") + done.error().message;
    }
  }
  const auto containers = CleanEngine(run_id, options.dry_run);
  if (!containers) {
    problems += (problems.empty() ? "" : "\n") + containers.error().message;
  } else if (left.empty() && records.empty() && *containers == 0) {
    fmt::print("no dead run has left anything\n");
  }
  if (!problems.empty()) return base::InfrastructureError(problems);
  return ExitCode::kAccept;
}

}  // namespace upgrade_gate::cli
