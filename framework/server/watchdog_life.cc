#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/text.h"
#include "framework/server/process_table.h"
#include "framework/server/watchdog.h"
#include "framework/server/watchdog_end.h"

namespace upgrade_gate::server {
namespace {

constexpr std::chrono::seconds kKillLimit{10};
constexpr std::chrono::seconds kCleanerLimit{30};
constexpr std::chrono::milliseconds kBetweenTries{500};
constexpr std::size_t kLineCap = kMostCleanerBytes + 256;
constexpr std::size_t kGroupCap = 4096;
constexpr std::size_t kCleanerCap = 256;
constexpr std::size_t kHeldCap = 16;
constexpr std::int64_t kMostSeconds = 366LL * 24 * 3600;

template <typename T>
bool TakeNumber(std::string_view& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool TakeWord(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// What is listed, from lines that may be anything.
class Guarded {
 public:
  explicit Guarded(const base::Clock& clock) : clock_(clock) {}

  void Take(std::string_view bytes) {
    for (const char c : bytes) {
      if (c == '\n') {
        if (!too_long_) TakeLine(line_);
        line_.clear();
        too_long_ = false;
      } else if (line_.size() < kLineCap) {
        line_ += c;
      } else {
        too_long_ = true;
      }
    }
  }

  std::vector<ProcessGroup> groups() const {
    std::vector<ProcessGroup> listed;
    for (const auto& [id, start] : groups_) listed.push_back({id, start});
    return listed;
  }
  const std::set<ListedCleaner>& cleaners() const { return cleaners_; }
  const std::optional<base::Instant>& deadline() const { return deadline_; }

 private:
  void TakeLine(std::string_view line) {
    pid_t group = 0;
    std::uint64_t start = 0;
    std::int64_t seconds = 0;
    if (TakeWord(line, "guard ")) {
      if (!TakeNumber(line, group) || !TakeWord(line, " ") || !TakeNumber(line, start)) return;
      // kill() gives 0, 1 and -1 a wider meaning.
      if (!line.empty() || group <= 1 || group == getpgrp() || groups_.size() >= kGroupCap) return;
      groups_[group] = start;
    } else if (TakeWord(line, "release ")) {
      if (TakeNumber(line, group) && line.empty()) groups_.erase(group);
    } else if (TakeWord(line, "cleaner ")) {
      if (cleaners_.size() < kCleanerCap) cleaners_.insert(CleanerOf(line));
    } else if (TakeWord(line, "uncleaner ")) {
      cleaners_.erase(CleanerOf(line));
    } else if (TakeWord(line, "deadline ")) {
      if (!TakeNumber(line, seconds) || !line.empty() || seconds < 0 || seconds > kMostSeconds) {
        return;
      }
      deadline_ = clock_.now() + std::chrono::seconds(seconds);
    }
  }

  static ListedCleaner CleanerOf(std::string_view line) {
    const std::size_t space = std::min(line.find(' '), line.size());
    return {std::string(line.substr(0, space)),
            std::string(line.substr(std::min(space + 1, line.size())))};
  }

  const base::Clock& clock_;
  std::map<pid_t, std::uint64_t> groups_;
  std::set<ListedCleaner> cleaners_;
  std::optional<base::Instant> deadline_;
  std::string line_;
  bool too_long_ = false;
};

// Bytes, and with them a descriptor if one came. -1 at an error, with errno.
ssize_t Receive(int fd, char* bytes, std::size_t size, base::Fd& came) {
  iovec into{bytes, size};
  msghdr message{};
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (got < 0 && errno == ENOTSOCK) return read(fd, bytes, size);
  const cmsghdr* const header = got < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len >= CMSG_LEN(sizeof(int))) {
    int file = -1;
    std::memcpy(&file, CMSG_DATA(header), sizeof file);
    came = base::Fd(file);
  }
  return got;
}

base::Status RunCleaner(const Cleaner& cleaner, const std::string& argument) {
  base::SystemClock clock;
  const base::Instant deadline = clock.now() + kCleanerLimit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.now());
    const base::Status done = cleaner(argument, std::max(left, std::chrono::milliseconds(1)));
    if (done || clock.now() >= deadline) return done;
    clock.SleepUntil(std::min(deadline, clock.now() + kBetweenTries));
  }
}

}  // namespace

Ended EndRun(const std::string& run_id, std::vector<ProcessGroup> groups,
             const std::set<ListedCleaner>& listed, const Cleaners& known) {
  Ended ended;
  Belonging left{std::move(groups), {}};
  if (base::IsPlainName(run_id)) left.marker = std::string(kRunMarker) + "=" + run_id;
  const auto outcome = KillAll(left, base::SystemClock(), kKillLimit);
  if (outcome) ended.killed = outcome->killed;
  if (!outcome) ended.problems.push_back(outcome.error().message);
  for (const Process& process : outcome ? outcome->left : std::vector<Process>()) {
    ended.problems.push_back(Describe(process) + " is still alive after KILL");
  }
  std::mutex mutex;
  std::vector<std::thread> running;
  for (const ListedCleaner& each : listed) {
    const auto cleaner = known.find(each.name);
    if (cleaner == known.end()) continue;
    running.emplace_back([&, run = cleaner->second, argument = each.argument] {
      const base::Status done = RunCleaner(run, argument);
      const std::lock_guard lock(mutex);
      if (!done) ended.problems.push_back(done.error().message);
    });
  }
  for (std::thread& thread : running) thread.join();
  return ended;
}

int RunWatchdog(int fd, const std::string& run_id, const Cleaners& cleaners) {
  for (const int signal : {SIGINT, SIGHUP, SIGTERM, SIGQUIT, SIGPIPE}) {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(signal, &ignore, nullptr);
  }
  // Fails on the read end of a plain pipe, where nobody waits for it.
  send(fd, "ready\n", 6, MSG_NOSIGNAL);

  const base::SystemClock clock;
  Guarded guarded(clock);
  std::vector<base::Fd> held;
  std::string bytes(kLineCap, '\0');  // a packet is read whole or cut
  for (;;) {
    int wait = -1;
    if (guarded.deadline()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(*guarded.deadline() - clock.now());
      if (left.count() <= 0) break;
      wait = static_cast<int>(std::min<std::int64_t>(left.count(), 3'600'000));
    }
    pollfd entry{fd, POLLIN, 0};
    const int ready = poll(&entry, 1, wait);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    base::Fd file;
    const ssize_t got = Receive(fd, bytes.data(), bytes.size(), file);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (file.valid() && held.size() < kHeldCap) held.push_back(std::move(file));
    guarded.Take({bytes.data(), static_cast<std::size_t>(got)});
  }
  // Nothing can be listed any more: a runner that lives on starts nothing else.
  close(fd);
  return EndRun(run_id, guarded.groups(), guarded.cleaners(), cleaners).killed;
}

}  // namespace upgrade_gate::server
