#include "framework/capture/host_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "framework/base/text.h"

namespace upgrade_gate::capture {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{200};
constexpr std::chrono::minutes kHeartbeat{1};
constexpr std::size_t kHolderCap = 512;  // bytes shown of what the file says

tl::unexpected<base::Error> Refuse(const fs::path& file, const std::string& why) {
  return base::InfrastructureError(
      fmt::format("host lock {}: {}; remove it, or name another file "
                  "with {}",
                  base::Visible(file.native()), why, kHostLockVariable));
}

// Opened for reading and never with O_CREAT where it is there already: in a
// sticky folder the kernel may refuse that on another user's file
// (fs.protected_regular).
base::Result<base::Fd> Open(const fs::path& file) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  base::Fd fd(open(file.c_str(), kFlags));
  if (!fd.valid() && errno == ENOENT) {
    const mode_t before = umask(0);  // others must be able to lock it
    fd = base::Fd(open(file.c_str(), kFlags | O_CREAT | O_EXCL, 0666));
    const int error = errno;
    umask(before);
    errno = error;
    if (!fd.valid() && errno == EEXIST) fd = base::Fd(open(file.c_str(), kFlags));
  }
  if (!fd.valid()) {
    return Refuse(file, errno == ELOOP ? "is a symbolic link, which is not followed"
                                       : std::string("cannot open: ") + std::strerror(errno));
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) {
    return Refuse(file, std::string("cannot stat: ") + std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) return Refuse(file, "is not a regular file");
  // A second name may be that of a file that somebody wants overwritten. None at
  // all: removed since it was opened.
  if (info.st_nlink > 1) return Refuse(file, "has a second name (hard link)");
  return fd;
}

// False for a file that was removed, or replaced, since it was opened: others
// lock the new one.
bool IsStillThere(const fs::path& file, const base::Fd& fd) {
  struct stat opened {};
  struct stat named {};
  return fstat(fd.get(), &opened) == 0 && lstat(file.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

base::Status WriteHolder(const fs::path& file, const base::Fd& lock, const fs::path& run) {
  const std::string text =
      fmt::format("pid {}, run folder {}\n", getpid(), fs::absolute(run).string());
  // The file that is locked, whatever its name means by now.
  const base::Fd fd(
      open(fmt::format("/proc/self/fd/{}", lock.get()).c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid() || ftruncate(fd.get(), 0) != 0 ||
      pwrite(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return Refuse(file, std::string("cannot write who holds it: ") + std::strerror(errno));
  }
  return {};
}

// "pid 4711, run folder /x"; what the file says may be anything.
std::string ReadHolder(const base::Fd& fd) {
  std::string text(kHolderCap, '\0');
  const ssize_t got = pread(fd.get(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  text = base::Visible(text.substr(0, text.find('\n')));
  return text.empty() ? "a process that has not said who it is" : text;
}

}  // namespace

base::Result<fs::path> HostLockFile(const char* variable) {
  if (variable == nullptr) return fs::path(kDefaultHostLock);
  const fs::path file(variable);
  if (!file.is_absolute() || !file.has_filename()) {
    return base::UsageError(fmt::format("{}: must be the absolute path of a file, not \"{}\"",
                                        kHostLockVariable, base::Visible(variable)));
  }
  return file;
}

HostLock::~HostLock() {
  if (file_.valid()) flock(file_.get(), LOCK_UN);
}

base::Result<HostLock> HostLock::Acquire(const HostLockOptions& options, const fs::path& run,
                                         const HostLockWait& wait) {
  const std::string place = "host lock " + base::Visible(options.file.native());
  const base::Instant began = wait.clock.now();
  base::Instant next_line = began;
  for (;;) {
    UG_ASSIGN(base::Fd fd, Open(options.file));
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      if (!IsStillThere(options.file, fd)) {
        if (wait.interrupted())
          return base::InfrastructureError(place + ": interrupted while waiting");
        continue;
      }
      UG_TRY(WriteHolder(options.file, fd, run));
      if (next_line != began) wait.say(place + ": free, going on");
      return HostLock(std::move(fd));
    }
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      return Refuse(options.file, std::string("cannot lock: ") + std::strerror(errno));
    }
    const std::string holder = ReadHolder(fd);
    if (options.when_held == WhenHeld::kFail) {
      return base::InfrastructureError(
          fmt::format("{}: held by {}; captures on one machine take turns: run this one when that "
                      "has ended, or with --host-lock wait",
                      place, holder));
    }
    const base::Instant now = wait.clock.now();
    if (now >= next_line) {
      const auto minutes = std::chrono::floor<std::chrono::minutes>(now - began).count();
      wait.say(minutes == 0 ? fmt::format("{}: held by {}: waiting for it to end", place, holder)
                            : fmt::format("{}: still held by {}: waiting for {} min", place, holder,
                                          minutes));
      next_line = now + kHeartbeat;
    }
    if (wait.interrupted()) {
      return base::InfrastructureError(
          fmt::format("{}: interrupted while waiting for {}: nothing was booted, run the same "
                      "command again",
                      place, holder));
    }
    wait.clock.SleepUntil(now + kBetweenLooks);
  }
}

}  // namespace upgrade_gate::capture
