#include "framework/server/leftovers.h"

#include <chrono>
#include <filesystem>
#include <set>
#include <system_error>

#include "framework/base/text.h"
#include "framework/server/run_id.h"
#include "framework/server/watchdog.h"

namespace upgrade_gate::server {
namespace {

constexpr std::chrono::seconds kLimit{10};

std::string NamespaceOf(const std::string& pid) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + pid + "/ns/pid", error).string();
}

std::string Marker(const std::string& run_id) {
  return std::string(kRunMarker) + "=" + run_id;
}

}  // namespace

base::Result<std::map<std::string, std::vector<Process>>> FindLeftovers() {
  const std::string ours = NamespaceOf("self");
  if (ours.empty()) {
    return base::InfrastructureError("/proc/self/ns/pid: cannot be read; mount /proc");
  }
  UG_ASSIGN(const auto marked, FindMarked(kRunMarker));
  std::set<std::string> dead;
  for (const auto& [process, run_id] : marked) {
    const auto runner = RunnerOf(run_id);
    if (!runner || IsAlive(*runner)) continue;
    if (NamespaceOf(std::to_string(process.pid)) == ours) dead.insert(run_id);
  }
  std::map<std::string, std::vector<Process>> left;
  for (const std::string& run_id : dead) {
    UG_ASSIGN(auto living, FindLiving({.marker = Marker(run_id)}));
    if (!living.empty()) left[run_id] = std::move(living);
  }
  return left;
}

base::Result<int> EndLeftovers(const std::string& run_id, const base::Clock& clock) {
  const auto runner = RunnerOf(run_id);
  if (!runner || IsAlive(*runner)) {
    return base::InfrastructureError("run " + base::Visible(run_id) +
                                     ": its runner is alive, or not known; nothing was ended");
  }
  UG_ASSIGN(const KillOutcome outcome, KillAll({.marker = Marker(run_id)}, clock, kLimit));
  if (outcome.left.empty()) return outcome.killed;
  std::vector<std::string> names;
  for (const Process& process : outcome.left) names.push_back(Describe(process));
  return base::InfrastructureError("run " + run_id +
                                   ": still alive after KILL: " + base::JoinList(names));
}

}  // namespace upgrade_gate::server
