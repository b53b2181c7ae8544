#include "framework/server/process_table.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "framework/base/text.h"
#include "framework/server/pidfd.h"

namespace upgrade_gate::server {
namespace {

constexpr std::uint64_t kStatCap = 4096;
// Above the kernel's own limit for arguments and environment together (6 MiB).
constexpr std::uint64_t kEnvironmentCap = 8ULL << 20;
// How long one round of KillAll waits before it looks again for new ones.
constexpr base::Nanoseconds kRound = std::chrono::milliseconds(500);

std::string ProcPath(pid_t pid, std::string_view file) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(file);
}

template <typename T>
bool ParseNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> SplitFields(std::string_view text) {
  std::vector<std::string_view> fields;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (end > 0) fields.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return fields;
}

// proc(5), /proc/<pid>/stat. The name may hold spaces and parentheses itself.
std::optional<Process> ParseStat(pid_t pid, std::string_view text) {
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  Process process;
  process.pid = pid;
  process.name = text.substr(open + 1, close - open - 1);
  const auto fields = SplitFields(text.substr(close + 1));
  if (fields.size() < 20 || fields[0].size() != 1) return std::nullopt;
  process.state = fields[0][0];
  if (!ParseNumber(fields[1], process.parent) || !ParseNumber(fields[2], process.group) ||
      !ParseNumber(fields[17], process.threads) || !ParseNumber(fields[19], process.start_time)) {
    return std::nullopt;
  }
  return process;
}

// The value of the variable in the environment of a process of this user.
std::optional<std::string> VariableOf(pid_t pid, std::string_view name) {
  struct stat info {};
  if (stat(ProcPath(pid, "").c_str(), &info) != 0 || info.st_uid != geteuid()) return std::nullopt;
  const auto environment = base::ReadFile(ProcPath(pid, "environ"), kEnvironmentCap);
  if (!environment) return std::nullopt;
  std::string_view rest = *environment;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    const std::string_view entry = rest.substr(0, end);
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('=')) {
      return std::string(entry.substr(name.size() + 1));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::nullopt;
}

bool CarriesMarker(pid_t pid, std::string_view marker) {
  const std::size_t equals = marker.find('=');
  return VariableOf(pid, marker.substr(0, equals)) == marker.substr(equals + 1);
}

base::Result<std::vector<Process>> AllProcesses() {
  std::vector<Process> all;
  std::error_code error;
  std::filesystem::directory_iterator it("/proc", error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    pid_t pid = 0;
    if (!ParseNumber(std::string_view(it->path().filename().native()), pid)) continue;
    if (auto process = ReadProcess(pid)) all.push_back(std::move(*process));
  }
  if (error) {
    return base::InfrastructureError("/proc: cannot list processes: " + error.message());
  }
  const bool self_seen =
      std::any_of(all.begin(), all.end(), [](const Process& p) { return p.pid == getpid(); });
  if (!self_seen) {
    return base::InfrastructureError(
        "/proc: does not show this process; mount the proc of this pid namespace");
  }
  return all;
}

}  // namespace

std::optional<Process> ReadProcess(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  const auto text = base::ReadFile(ProcPath(pid, "stat"), kStatCap);
  return text ? ParseStat(pid, *text) : std::nullopt;
}

std::string Describe(const Process& process) {
  return "pid " + std::to_string(process.pid) + " (" + base::Visible(process.name) + ")";
}

base::Result<std::vector<Process>> FindLiving(const Belonging& belonging) {
  UG_ASSIGN(std::vector<Process> all, AllProcesses());
  const pid_t self = getpid();

  const auto in_group = [&](const Process& process) {
    return std::any_of(
        belonging.groups.begin(), belonging.groups.end(), [&](const ProcessGroup& group) {
          if (process.group != group.id || process.start_time < group.leader_start) return false;
          const auto leader = std::find_if(all.begin(), all.end(),
                                           [&](const Process& p) { return p.pid == group.id; });
          return leader == all.end() || leader->start_time == group.leader_start;
        });
  };
  const auto is_known = [&](const Process& process) {
    return std::any_of(belonging.known.begin(), belonging.known.end(), [&](const Process& p) {
      return p.pid == process.pid && p.start_time == process.start_time;
    });
  };
  std::unordered_map<pid_t, bool> belongs;
  for (const Process& process : all) {
    belongs[process.pid] =
        process.pid != self &&
        (in_group(process) || is_known(process) ||
         (!belonging.marker.empty() && CarriesMarker(process.pid, belonging.marker)));
  }
  for (bool grew = true; grew;) {
    grew = false;
    for (const Process& process : all) {
      if (belongs[process.pid] || process.pid == self) continue;
      const auto parent = belongs.find(process.parent);
      if (parent != belongs.end() && parent->second) grew = belongs[process.pid] = true;
    }
  }
  std::erase_if(all, [&](const Process& p) { return !p.alive() || !belongs[p.pid]; });
  return all;
}

base::Result<std::vector<std::pair<Process, std::string>>> FindMarked(const std::string& variable) {
  UG_ASSIGN(const std::vector<Process> all, AllProcesses());
  std::vector<std::pair<Process, std::string>> found;
  for (const Process& process : all) {
    if (!process.alive()) continue;
    if (auto value = VariableOf(process.pid, variable)) {
      found.emplace_back(process, std::move(*value));
    }
  }
  return found;
}

base::Fd Signal(const Process& process, int signal) {
  base::Fd fd = OpenPidfd(process.pid);
  if (!fd.valid()) return fd;
  // Read after the descriptor was opened: if it is the same process now, the
  // descriptor can mean no other.
  const auto now = ReadProcess(process.pid);
  if (!now || now->start_time != process.start_time) return {};
  SignalPidfd(fd, signal);
  return fd;
}

bool WaitForEnd(const std::vector<base::Fd>& processes, const base::Clock& clock,
                base::Instant deadline) {
  for (const base::Fd& process : processes) {
    if (!process.valid()) continue;
    for (;;) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.now()).count();
      const auto wait = std::clamp<decltype(left)>(left, 0, std::numeric_limits<int>::max());
      pollfd entry{process.get(), POLLIN, 0};
      const int ready = poll(&entry, 1, static_cast<int>(wait));
      if (ready > 0) break;
      if (ready == 0 || errno != EINTR) return false;
    }
  }
  return true;
}

base::Result<KillOutcome> KillAll(const Belonging& whom, const base::Clock& clock,
                                  base::Nanoseconds limit) {
  Belonging belonging = whom;
  const base::Instant deadline = clock.now() + limit;
  std::set<std::pair<pid_t, std::uint64_t>> seen;
  for (int empty_scans = 0;;) {
    UG_ASSIGN(std::vector<Process> living, FindLiving(belonging));
    if (living.empty()) {
      if (++empty_scans == 2) return KillOutcome{static_cast<int>(seen.size()), {}};
      continue;
    }
    if (clock.now() >= deadline) {
      return KillOutcome{static_cast<int>(seen.size()), std::move(living)};
    }
    empty_scans = 0;
    // At once for a whole group: none of its members can fork its way out.
    for (const ProcessGroup& group : belonging.groups) {
      const bool has_members = std::any_of(living.begin(), living.end(), [&](const Process& p) {
        return p.group == group.id && p.start_time >= group.leader_start;
      });
      const auto leader = ReadProcess(group.id);
      if (has_members && group.id > 1 && group.id != getpgrp() &&
          (!leader || leader->start_time == group.leader_start)) {
        kill(-group.id, SIGKILL);
      }
    }
    std::vector<base::Fd> ending;
    for (const Process& process : living) {
      if (seen.emplace(process.pid, process.start_time).second) belonging.known.push_back(process);
      ending.push_back(Signal(process, SIGKILL));
    }
    WaitForEnd(ending, clock, std::min(deadline, clock.now() + kRound));
  }
}

}  // namespace upgrade_gate::server
