#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <map>
#include <string_view>

#include "framework/base/clock.h"
#include "framework/base/text.h"
#include "framework/server/process_table.h"
#include "framework/server/watchdog.h"

namespace upgrade_gate::server {
namespace {

constexpr std::chrono::seconds kCleanupLimit{10};
constexpr std::size_t kLineCap = 128;
constexpr std::size_t kGroupCap = 4096;

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

 private:
  void TakeLine(std::string_view line) {
    pid_t group = 0;
    std::uint64_t start = 0;
    if (TakeWord(line, "guard ")) {
      if (!TakeNumber(line, group) || !TakeWord(line, " ") || !TakeNumber(line, start)) return;
      // kill() gives 0, 1 and -1 a wider meaning.
      if (!line.empty() || group <= 1 || group == getpgrp() || groups_.size() >= kGroupCap) return;
      groups_[group] = start;
    } else if (TakeWord(line, "release ")) {
      if (TakeNumber(line, group) && line.empty()) groups_.erase(group);
    }
  }

  std::map<pid_t, std::uint64_t> groups_;
  std::string line_;
  bool too_long_ = false;
};

}  // namespace

int RunWatchdog(int fd, const std::string& run_id) {
  for (const int signal : {SIGINT, SIGHUP, SIGTERM, SIGQUIT, SIGPIPE}) {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(signal, &ignore, nullptr);
  }
  // Fails on the read end of a plain pipe, where nobody waits for it.
  send(fd, "ready\n", 6, MSG_NOSIGNAL);

  Guarded guarded;
  char bytes[4096];
  for (;;) {
    const ssize_t got = read(fd, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    guarded.Take({bytes, static_cast<std::size_t>(got)});
  }
  Belonging left{guarded.groups(), {}};
  if (base::IsPlainName(run_id)) left.marker = std::string(kRunMarker) + "=" + run_id;
  const base::SystemClock clock;
  const auto outcome = KillAll(left, clock, kCleanupLimit);
  return outcome ? outcome->killed : 0;
}

}  // namespace upgrade_gate::server
