#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
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
namespace {

using base::ExitCode;
using base::Result;

// Shows and, unless told otherwise, ends what is found; errors are gathered, so that
// one thing that cannot be ended does not keep the others.
class Cleaning {
 public:
  explicit Cleaning(bool dry_run) : dry_run_(dry_run) {}

  void Processes(const std::map<std::string, std::vector<server::Process>>& left) {
    for (const auto& [run_id, processes] : left) {
      found_ = true;
      fmt::print("run {} (dead)\n", run_id);
      for (const server::Process& process : processes) {
        fmt::print("  {}\n", server::Describe(process));
      }
      if (dry_run_) continue;
      const auto ended = server::EndLeftovers(run_id, clock_);
      if (ended) fmt::print("  {} ended\n", *ended);
      if (!ended) Problem(ended.error());
    }
  }

  void Records(const std::vector<std::filesystem::path>& records) {
    for (const std::filesystem::path& record : records) {
      found_ = true;
      const auto described = command::DescribeRecord(record);
      fmt::print("cleanup that was not done: {}\n",
                 described ? *described : described.error().message);
      if (dry_run_) continue;
      if (const auto done = command::RunRecord(record); !done) Problem(done.error());
    }
  }

  // Of one run, or of all whose runner is gone.
  void Containers(const std::optional<std::string>& run_id) {
    const auto address = docker::FindEngine();
    const auto engine =
        address ? docker::Engine::Connect(*address)
                : Result<std::shared_ptr<const docker::Engine>>(tl::unexpected(address.error()));
    // The engine that nobody named need not be there, nor let this user in.
    if (!engine && std::getenv("DOCKER_HOST") != nullptr) return Problem(engine.error());
    if (!engine) {
      looked_for_containers_ = false;
      fmt::print(stderr, "containers were not looked for: {}\n", engine.error().message);
      return;
    }
    const auto removal = dry_run_ ? docker::Removal::kOnlyTell : docker::Removal::kRemove;
    const auto removed = run_id ? docker::RemoveRun(**engine, *run_id, removal)
                                : docker::SweepExpired(**engine, clock_.wall(), removal);
    if (!removed) return Problem(removed.error());
    for (const std::string& name : removed->containers) {
      found_ = true;
      fmt::print("container {} of a dead run{}\n", name, dry_run_ ? "" : ": removed");
    }
  }

  Result<ExitCode> Done() const {
    if (!problems_.empty()) return tl::unexpected(base::Error{kind_, problems_});
    if (!found_) {
      fmt::print("no dead run has left anything{}\n",
                 looked_for_containers_ ? "" : " but, maybe, containers");
    }
    return ExitCode::kAccept;
  }

 private:
  void Problem(const base::Error& error) {
    if (problems_.empty()) kind_ = error.kind;
    problems_ += (problems_.empty() ? "" : "\n") + error.message;
  }

  const bool dry_run_;
  const base::SystemClock clock_;
  bool found_ = false;
  bool looked_for_containers_ = true;
  std::string problems_;
  base::ErrorKind kind_ = base::ErrorKind::kInfrastructure;  // of the first
};

}  // namespace

Result<ExitCode> CleanUp(const CleanupOptions& options) {
  if (!options.all && !options.run) {
    return base::UsageError("cleanup: say of which run: --run DIR, or --all");
  }
  Cleaning cleaning(options.dry_run);
  UG_ASSIGN(auto left, server::FindLeftovers());
  if (options.all) {
    cleaning.Processes(left);
    cleaning.Containers(std::nullopt);
    return cleaning.Done();
  }
  const evidence::Layout layout(std::filesystem::absolute(*options.run));
  const auto status = capture::ReadStatus(layout);
  if (!status) {
    return base::UsageError(options.run->string() +
                            ": does not say what run it is of: " + status.error().message);
  }
  const auto runner = server::RunnerOf(status->run_id);
  if (!runner) {
    return base::UsageError(
        options.run->string() +
        ": is of a run that does not say who its runner is: " + base::Visible(status->run_id));
  }
  if (server::IsAlive(*runner)) {
    return base::UsageError(fmt::format("{}: its runner (pid {}) is alive; nothing was ended",
                                        options.run->string(), runner->pid));
  }
  std::erase_if(left, [&](const auto& entry) { return entry.first != status->run_id; });
  cleaning.Processes(left);
  cleaning.Records(command::FindRecords(layout.live_logs()));
  cleaning.Containers(status->run_id);
  return cleaning.Done();
}

}  // namespace upgrade_gate::cli
