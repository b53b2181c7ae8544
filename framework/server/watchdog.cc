#include "framework/server/watchdog.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/text.h"
#include "framework/server/forked_child.h"
#include "framework/server/pidfd.h"
#include "framework/server/process_table.h"

namespace upgrade_gate::server {
namespace {

constexpr std::chrono::seconds kReadyLimit{10};

// Descriptors of the watchdog from exec on.
constexpr int kSocket = 3;
constexpr int kReport = 4;  // close-on-exec

// Everything the forked children need, made before the fork.
struct Launch {
  const char* path = nullptr;
  char* const* argv = nullptr;
  char* const* environment = nullptr;
  int null = -1;
  int socket = -1;
  int report = -1;
  int pid_out = -1;
};

// Async-signal-safe; runs in the first child, which forks the watchdog and ends.
[[noreturn]] void RunChild(const Launch& launch) {
  ResetSignals();
  setsid();
  const pid_t pid = fork();
  if (pid < 0) FailChild(launch.report, ChildStage::kFork);
  if (pid > 0) {
    const bool told = write(launch.pid_out, &pid, sizeof pid) == static_cast<ssize_t>(sizeof pid);
    _exit(told ? 0 : 127);
  }
  if (dup2(launch.null, 0) < 0 || dup2(launch.null, 1) < 0 || dup2(launch.null, 2) < 0 ||
      dup2(launch.socket, kSocket) < 0 || dup3(launch.report, kReport, O_CLOEXEC) < 0) {
    FailChild(launch.report, ChildStage::kStreams);
  }
  if (close_range(kReport + 1, ~0U, 0) != 0) FailChild(kReport, ChildStage::kDescriptors);
  if (chdir("/") != 0) FailChild(kReport, ChildStage::kDirectory);
  execve(launch.path, launch.argv, launch.environment);
  FailChild(kReport, ChildStage::kExec);
}

// The runner's, without markers: the watchdog of a run inside another run must
// not be taken for a part of the outer one.
std::vector<char*> WatchdogEnvironment() {
  std::vector<char*> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (name != kRunMarker && name != kBootMarker) kept.push_back(*entry);
  }
  kept.push_back(nullptr);
  return kept;
}

base::Error CannotStart(const std::filesystem::path& executable, const std::string& cause) {
  return {base::ErrorKind::kInfrastructure,
          executable.string() + ": cannot start as the watchdog: " + cause};
}

bool WaitForReady(int socket) {
  const base::SystemClock clock;
  const base::Instant deadline = clock.now() + kReadyLimit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.now()).count();
    pollfd entry{socket, POLLIN, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::max<decltype(left)>(left, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char answer[16];
    const ssize_t got = recv(socket, answer, sizeof answer, 0);
    if (got < 0 && errno == EINTR) continue;
    return got > 0 && std::string_view(answer, static_cast<std::size_t>(got)) == "ready\n";
  }
}

}  // namespace

base::Result<Watchdog> Watchdog::Start(const std::filesystem::path& executable,
                                       const std::string& run_id) {
  if (!base::IsPlainName(run_id)) {
    return base::UsageError("run id \"" + base::Visible(run_id) +
                            "\": is not a plain name of letters, digits, '.', '_' and '-'");
  }
  UG_ASSIGN(FdPair socket, MakeSocketPair(SOCK_SEQPACKET));
  UG_ASSIGN(FdPair report, MakePipe());
  UG_ASSIGN(FdPair told, MakePipe());
  UG_ASSIGN(const base::Fd null, MoveHigh(base::Fd(open("/dev/null", O_RDWR | O_CLOEXEC))));

  std::string path = std::filesystem::absolute(executable).string();
  std::string command = "watchdog";
  std::string option = "--run-id";
  std::string id = run_id;
  char* argv[] = {path.data(), command.data(), option.data(), id.data(), nullptr};
  std::vector<char*> environment = WatchdogEnvironment();
  const Launch launch{
      path.c_str(),    argv, environment.data(), null.get(), socket.write.get(), report.write.get(),
      told.write.get()};
  pid_t child = -1;
  {
    const SignalsBlocked blocked;
    child = fork();
    if (child == 0) RunChild(launch);
  }
  if (child < 0) return tl::unexpected(CannotStart(executable, std::strerror(errno)));
  socket.write.Close();
  report.write.Close();
  told.write.Close();
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_t pid = -1;
  const bool forked = read(told.read.get(), &pid, sizeof pid) == static_cast<ssize_t>(sizeof pid);
  const base::Fd pidfd = forked ? OpenPidfd(pid) : base::Fd();
  if (ChildFailure failure; ReadChildFailure(report.read.get(), failure)) {
    return tl::unexpected(CannotStart(executable, std::strerror(failure.error)));
  }
  if (!forked || !WaitForReady(socket.read.get())) {
    if (pidfd.valid()) SignalPidfd(pidfd, SIGKILL);
    return tl::unexpected(
        CannotStart(executable, "it did not say within 10 s that it is watching"));
  }
  return Watchdog(std::move(socket.read), pid);
}

base::Status Watchdog::Send(const std::string& line, int file) {
  iovec bytes{const_cast<char*>(line.data()), line.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  // Not waiting: a watchdog that does not read is as bad as none.
  ssize_t put = -1;
  do {
    put = sendmsg(pipe_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (put < 0 && errno == EINTR);
  if (put == static_cast<ssize_t>(line.size())) return {};
  return base::InfrastructureError("watchdog (pid " + std::to_string(pid_) +
                                   "): is no longer there: " + std::strerror(errno) +
                                   "; nothing is started without it, run again");
}

base::Status Watchdog::Guard(pid_t process_group) {
  const auto leader = ReadProcess(process_group);
  if (!leader) {
    return base::InfrastructureError("process group " + std::to_string(process_group) +
                                     ": its leader is gone before it could be guarded");
  }
  return Send("guard " + std::to_string(process_group) + " " + std::to_string(leader->start_time) +
              "\n");
}

base::Status Watchdog::Release(pid_t process_group) {
  return Send("release " + std::to_string(process_group) + "\n");
}

base::Status Watchdog::AddCleaner(const std::string& name, const std::string& argument) {
  if (!base::IsPlainName(name) || argument.find('\n') != std::string::npos) {
    return base::UsageError("cleaner \"" + base::Visible(name) + "\": is not of one line");
  }
  if (argument.size() > kMostCleanerBytes) {
    return base::UsageError("cleaner \"" + name + "\": what it is told has " +
                            std::to_string(argument.size()) + " bytes, more than " +
                            std::to_string(kMostCleanerBytes));
  }
  return Send("cleaner " + name + " " + argument + "\n");
}

base::Status Watchdog::RemoveCleaner(const std::string& name, const std::string& argument) {
  return Send("uncleaner " + name + " " + argument + "\n");
}

base::Status Watchdog::SetDeadline(std::chrono::seconds from_now) {
  return Send("deadline " + std::to_string(from_now.count()) + "\n");
}

base::Status Watchdog::Hold(int file) {
  return Send("hold\n", file);
}

}  // namespace upgrade_gate::server
