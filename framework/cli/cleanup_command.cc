#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <vector>

#include "fixtures/command/cleanup.h"
#include "framework/base/clock.h"
#include "framework/base/text.h"
#include "framework/capture/progress.h"
#include "framework/cli/commands.h"
#include "framework/server/leftovers.h"
#include "framework/server/run_id.h"

namespace upgrade_gate::cli {

using base::ExitCode;
using base::Result;

Result<ExitCode> CleanUp(const CleanupOptions& options) {
  if (!options.all && !options.run) {
    return base::UsageError("cleanup: say of which run: --run DIR, or --all");
  }
  UG_ASSIGN(auto left, server::FindLeftovers());
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
    records = command::FindRecords(layout.live_logs());
    std::erase_if(left, [&](const auto& entry) { return entry.first != status->run_id; });
  }
  const base::SystemClock clock;
  std::string problems;
  for (const auto& [run_id, processes] : left) {
    fmt::print("run {} (dead)\n", run_id);
    for (const server::Process& process : processes) {
      fmt::print("  {}\n", server::Describe(process));
    }
    if (options.dry_run) continue;
    if (const auto ended = server::EndLeftovers(run_id, clock); ended) {
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
  if (left.empty() && records.empty()) fmt::print("no dead run has left anything\n");
  if (!problems.empty()) return base::InfrastructureError(problems);
  return ExitCode::kAccept;
}

}  // namespace upgrade_gate::cli
