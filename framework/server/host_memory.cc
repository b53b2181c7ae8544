#include "framework/server/host_memory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/server/host_text.h"

namespace upgrade_gate::server {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kReturnLimit{30};  // what an ended server gets to free its memory
constexpr std::uint64_t kFileCap = std::uint64_t{4} << 20;
constexpr std::uint64_t kMapsCap = std::uint64_t{64} << 20;
constexpr std::int64_t kSlackKib = std::int64_t{4} << 20;
// Crumbs that changed nothing so far: one ring buffer of an engine's broadcast is more.
constexpr std::uint64_t kCrumbs = std::uint64_t{64} << 20;
constexpr std::int64_t kGrownKib = std::int64_t{256} << 10;  // of a process worth naming
constexpr std::size_t kNamed = 3;
constexpr std::size_t kMaxFiles = 100'000;
constexpr std::int64_t kMaxKib = std::int64_t{1} << 43;
constexpr std::string_view kShm = "/dev/shm/";

// "MemTotal:  2097152 kB"; nothing: no such line, or no such machine.
std::optional<std::int64_t> Figure(std::string_view meminfo, std::string_view key) {
  const std::string value = FirstValue(meminfo, key);
  const auto number = Number<std::int64_t>(std::string_view(value).substr(0, value.find(' ')));
  if (!number || *number < 0 || *number > kMaxKib) return std::nullopt;
  return number;
}

// Surplus pages come out of what is available and are missed there.
std::int64_t HugeKib(std::string_view meminfo) {
  const auto of = [&](std::string_view key) { return Figure(meminfo, key).value_or(0); };
  const std::int64_t pages = of("HugePages_Total") - of("HugePages_Free") - of("HugePages_Surp");
  const std::int64_t size = of("Hugepagesize");
  if (pages <= 0 || size <= 0 || pages > kMaxKib / size) return 0;
  return pages * size;
}

base::Result<HostMemory> ReadLevel(const HostReader& reader) {
  const fs::path file = reader.root / "proc/meminfo";
  UG_ASSIGN(const std::string text, base::ReadFile(file, kFileCap));
  const auto total = Figure(text, "MemTotal");
  const auto available = Figure(text, "MemAvailable");
  if (!total || !available) {
    return base::InfrastructureError(file.string() +
                                     ": does not say MemTotal and MemAvailable: whether the "
                                     "host's memory comes back cannot be told");
  }
  HostMemory memory;
  memory.total_kib = *total;
  memory.available_kib = *available;
  memory.huge_kib = HugeKib(text);
  memory.tmpfs_kib = Figure(text, "Shmem").value_or(0);
  return memory;
}

base::Status AddFiles(const HostReader& reader, std::vector<SharedMemory>& shared) {
  const fs::path root = reader.root / "dev/shm";
  std::error_code error;
  if (!fs::exists(root, error)) return {};
  std::size_t seen = 0;
  // Not by a recursive iterator, which ends where a folder vanishes before it.
  for (std::vector<fs::path> folders = {root}; !folders.empty();) {
    const fs::path folder = std::move(folders.back());
    folders.pop_back();
    fs::directory_iterator it(folder, fs::directory_options::skip_permission_denied, error);
    for (; !error && it != fs::directory_iterator(); it.increment(error)) {
      if (++seen > kMaxFiles) {
        return base::InfrastructureError(
            fmt::format("{}: has more than {} files; remove what is left there", root.string(),
                        base::WithThousands(kMaxFiles)));
      }
      struct stat info {};
      if (lstat(it->path().c_str(), &info) != 0) continue;  // ended while we looked
      if (S_ISDIR(info.st_mode)) folders.push_back(it->path());
      if (!S_ISREG(info.st_mode)) continue;
      SharedMemory file;
      file.name = std::string(kShm) + it->path().lexically_relative(root).string();
      file.identity = fmt::format("{}:{}", info.st_dev, info.st_ino);
      // A sparse file takes less than its size, none more.
      file.bytes = std::min(static_cast<std::uint64_t>(info.st_blocks) * 512,
                            static_cast<std::uint64_t>(std::max<off_t>(info.st_size, 0)));
      file.user = info.st_uid;
      file.device = info.st_dev;
      file.inode = info.st_ino;
      shared.push_back(std::move(file));
    }
    if (error && error != std::errc::no_such_file_or_directory) {
      return base::InfrastructureError(folder.string() + ": cannot list: " + error.message());
    }
  }
  return {};
}

// ipc/shm.c of Linux, sysvipc_shm_proc_show: key shmid perms size cpid lpid nattch uid gid
// cuid cgid atime dtime ctime rss swap, the last two in bytes.
void AddSegments(const HostReader& reader, std::vector<SharedMemory>& shared) {
  const auto text = base::ReadFile(reader.root / "proc/sysvipc/shm", kFileCap);
  if (!text) return;  // a kernel without them
  for (const std::string& line : Lines(*text)) {
    std::vector<std::string> fields = Split(line, ' ');
    std::erase(fields, "");
    if (fields.size() < 14) continue;
    const auto id = Number<std::uint64_t>(fields[1]);
    const auto attached = Number<std::uint64_t>(fields[6]);
    const auto user = Number<std::uint64_t>(fields[7]);
    if (!id || !attached || !user) continue;  // the heading
    std::uint64_t bytes = Number<std::uint64_t>(fields[3]).value_or(0);
    if (fields.size() >= 16) {
      const auto rss = Number<std::uint64_t>(fields[14]);
      const auto swap = Number<std::uint64_t>(fields[15]);
      if (rss && swap) bytes = *rss + *swap;
    }
    SharedMemory segment;
    segment.name = fmt::format("segment {} of System V", *id);
    segment.identity = fmt::format("{} {} {}", *id, fields[4], fields[13]);
    segment.bytes = bytes;
    segment.user = *user;
    segment.attached = *attached > 0;
    shared.push_back(std::move(segment));
  }
}

// proc(5), /proc/<pid>/status. Nothing: it has ended, or waits for its parent to see that.
std::optional<ProcessMemory> ReadProcessMemory(const HostReader& reader, const std::string& pid) {
  const auto text = base::ReadFile(reader.root / "proc" / pid / "status", kFileCap);
  if (!text || FirstValue(*text, "State").starts_with("Z")) return std::nullopt;
  const std::string users = FirstValue(*text, "Uid");
  ProcessMemory process;
  process.name = FirstValue(*text, "Name");
  process.user =
      Number<std::uint64_t>(std::string_view(users).substr(0, users.find_first_of(" \t")))
          .value_or(0);
  process.kib = Figure(*text, "RssAnon").value_or(0) + Figure(*text, "RssShmem").value_or(0);
  return process;
}

base::Status AddProcesses(const HostReader& reader, HostMemory& memory) {
  UG_ASSIGN(const auto pids, NumberedEntries(reader.root / "proc"));
  for (const std::uint64_t pid : pids) {
    if (auto process = ReadProcessMemory(reader, std::to_string(pid))) {
      memory.processes.emplace(pid, std::move(*process));
    }
  }
  return {};
}

using FileId = std::pair<std::uint64_t, std::uint64_t>;  // device and inode

// "7f00-7f01 rw-s 00000000 00:19 1234  /dev/shm/psm_1"
std::optional<FileId> MappedFile(const std::string& line) {
  std::vector<std::string> fields = Split(line, ' ');
  std::erase(fields, "");
  if (fields.size() < 6) return std::nullopt;
  const std::size_t colon = std::min(fields[3].find(':'), fields[3].size() - 1);
  const auto major = Number<unsigned>(std::string_view(fields[3]).substr(0, colon), 16);
  const auto minor = Number<unsigned>(std::string_view(fields[3]).substr(colon + 1), 16);
  const auto inode = Number<std::uint64_t>(fields[4]);
  if (!major || !minor || !inode) return std::nullopt;
  return FileId(makedev(*major, *minor), *inode);
}

// The files of /dev/shm that living processes have mapped or open.
struct Held {
  std::set<FileId> files;
  // Other users, of whose processes some may not be looked into. Of our own those are
  // the guards of a login, which hold no such file.
  std::set<std::uint64_t> unknown;
};

void AddHeldBy(const fs::path& process, std::uint64_t user, Held& held) {
  const auto maps = base::ReadFile(process / "maps", kMapsCap);
  std::error_code error;
  fs::directory_iterator it(process / "fd", error);
  if (!maps || error) {
    if (fs::exists(process, error)) held.unknown.insert(user);
    return;
  }
  for (const std::string& line : Lines(*maps)) {
    if (line.find(kShm) == line.npos) continue;
    if (const auto file = MappedFile(line)) held.files.insert(*file);
  }
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code unreadable;
    const std::string target = fs::read_symlink(it->path(), unreadable).string();
    struct stat info {};
    if (target.find(kShm) == target.npos || stat(it->path().c_str(), &info) != 0) continue;
    held.files.emplace(info.st_dev, info.st_ino);
  }
}

base::Result<Held> ReadHeld(const HostReader& reader) {
  Held held;
  UG_ASSIGN(const auto pids, NumberedEntries(reader.root / "proc"));
  for (const std::uint64_t pid : pids) {
    const auto process = ReadProcessMemory(reader, std::to_string(pid));
    if (!process) continue;
    AddHeldBy(reader.root / "proc" / std::to_string(pid), process->user, held);
  }
  if (const auto self = ReadProcessMemory(reader, "self")) held.unknown.erase(self->user);
  return held;
}

std::vector<SharedMemory> NewSince(const HostMemory& before, const HostMemory& now) {
  std::set<std::pair<std::string, std::string>> known;
  for (const SharedMemory& piece : before.shared) known.emplace(piece.name, piece.identity);
  std::vector<SharedMemory> fresh;
  for (const SharedMemory& piece : now.shared) {
    if (!known.contains({piece.name, piece.identity})) fresh.push_back(piece);
  }
  std::stable_sort(fresh.begin(), fresh.end(),
                   [](const SharedMemory& a, const SharedMemory& b) { return a.bytes > b.bytes; });
  return fresh;
}

std::uint64_t Sum(const std::vector<SharedMemory>& pieces) {
  std::uint64_t sum = 0;
  for (const SharedMemory& piece : pieces) sum += piece.bytes;
  return sum;
}

// What came since and nobody holds; none where it is crumbs.
base::Result<std::vector<SharedMemory>> Orphans(const HostReader& reader, const HostMemory& before,
                                                const HostMemory& now) {
  std::vector<SharedMemory> orphans = NewSince(before, now);
  std::erase_if(orphans, [](const SharedMemory& piece) { return piece.attached; });
  if (Sum(orphans) > kCrumbs) {
    UG_ASSIGN(const Held held, ReadHeld(reader));
    std::erase_if(orphans, [&](const SharedMemory& piece) {
      return piece.inode != 0 && (held.files.contains({piece.device, piece.inode}) ||
                                  held.unknown.contains(piece.user));
    });
  }
  if (Sum(orphans) <= kCrumbs) orphans.clear();
  return orphans;
}

struct Missing {
  std::int64_t kib = 0;  // more than the slack; 0: no more
  std::vector<SharedMemory> orphans;

  bool any() const { return kib > 0 || !orphans.empty(); }
};

base::Result<Missing> Look(const HostReader& reader, const HostMemory& before, HostMemory& now) {
  UG_ASSIGN(now, ReadLevel(reader));
  UG_TRY(AddFiles(reader, now.shared));
  AddSegments(reader, now.shared);
  Missing missing;
  UG_ASSIGN(missing.orphans, Orphans(reader, before, now));
  const std::int64_t less =
      before.available_kib - now.available_kib + now.huge_kib - before.huge_kib;
  if (less > MemorySlackKib(before.total_kib)) missing.kib = less;
  return missing;
}

std::string Mib(std::uint64_t bytes) {
  return base::WithThousands(CeilMib(bytes)) + " MiB";
}
std::string MibOfKib(std::int64_t kib) {
  return Mib(static_cast<std::uint64_t>(std::max<std::int64_t>(kib, 0)) * 1024);
}

std::string Listed(std::vector<std::string> items) {
  const std::size_t all = items.size();
  if (all > kNamed) {
    items.resize(kNamed);
    items.push_back(fmt::format("{} more", all - kNamed));
  }
  return base::JoinList(items);
}

std::string Shown(const SharedMemory& piece) {
  return fmt::format("{} of user {} ({})", base::Shorten(base::Visible(piece.name), 200),
                     piece.user, Mib(piece.bytes));
}

// Those that came or grew, the biggest first.
std::vector<std::string> Grown(const HostMemory& before, const HostMemory& now) {
  std::vector<std::pair<std::int64_t, std::string>> grown;
  for (const auto& [pid, process] : now.processes) {
    const auto was = before.processes.find(pid);
    const bool known = was != before.processes.end() && was->second.name == process.name;
    const std::int64_t more = process.kib - (known ? was->second.kib : 0);
    if (more < kGrownKib) continue;
    grown.emplace_back(
        more, fmt::format("process {} {} of user {} ({}{})", pid, base::Visible(process.name),
                          process.user, MibOfKib(more), known ? " more" : ""));
  }
  std::stable_sort(grown.begin(), grown.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (auto& [more, text] : grown) texts.push_back(std::move(text));
  return texts;
}

std::string DescribeLess(const HostMemory& before, const HostMemory& now, std::int64_t kib) {
  std::string text = fmt::format(
      "the host's memory has not come back: {} less than before the first boot is available, and "
      "{} may come and go",
      MibOfKib(kib), MibOfKib(MemorySlackKib(before.total_kib)));
  std::vector<std::string> holders = Grown(before, now);
  for (const SharedMemory& piece : NewSince(before, now)) {
    if (piece.bytes > kCrumbs) holders.push_back(Shown(piece));
  }
  if (now.huge_kib > before.huge_kib) {
    holders.push_back("huge pages (" + MibOfKib(now.huge_kib - before.huge_kib) + ")");
  }
  if (now.tmpfs_kib - before.tmpfs_kib >= kGrownKib) {
    holders.push_back("shared memory and tmpfs together (" +
                      MibOfKib(now.tmpfs_kib - before.tmpfs_kib) + " more)");
  }
  text += holders.empty() ? "; no process and no shared memory shows as much"
                          : "; new since then: " + Listed(std::move(holders));
  return text +
         "; end or remove what does not belong here, or measure when nobody else needs "
         "the memory";
}

std::string DescribeOrphans(const std::vector<SharedMemory>& orphans) {
  std::vector<std::string> shown;
  for (const SharedMemory& piece : orphans) shown.push_back(Shown(piece));
  return "shared memory that no process holds was left behind: " + Listed(std::move(shown)) +
         "; remove it with rm or ipcrm -m, and run the same command again";
}

}  // namespace

std::int64_t MemorySlackKib(std::int64_t total_kib) {
  return std::max(total_kib / 20, kSlackKib);
}

base::Result<HostMemory> ReadHostMemory(const HostReader& reader) {
  UG_ASSIGN(HostMemory memory, ReadLevel(reader));
  UG_TRY(AddFiles(reader, memory.shared));
  AddSegments(reader, memory.shared);
  UG_TRY(AddProcesses(reader, memory));
  return memory;
}

base::Status CheckMemory(const HostReader& reader, const HostMemory& before, base::Clock& clock,
                         const std::function<bool()>& interrupted) {
  const base::Instant deadline = clock.now() + kReturnLimit;
  HostMemory now;
  UG_ASSIGN(Missing missing, Look(reader, before, now));
  while (missing.any() && clock.now() < deadline) {
    if (interrupted()) {
      return base::InfrastructureError(
          "interrupted while waiting for the host's memory to come back; run the same command "
          "again");
    }
    clock.SleepUntil(std::min(deadline, clock.now() + std::chrono::seconds(1)));
    UG_ASSIGN(missing, Look(reader, before, now));
  }
  if (!missing.any()) return {};
  if (!missing.orphans.empty()) return base::InfrastructureError(DescribeOrphans(missing.orphans));
  UG_TRY(AddProcesses(reader, now));
  return base::InfrastructureError(DescribeLess(before, now, missing.kib));
}

}  // namespace upgrade_gate::server
