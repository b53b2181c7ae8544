#include "framework/server/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "framework/server/forked_child.h"
#include "framework/server/pidfd.h"

namespace upgrade_gate::server {
namespace {

// Descriptors of the child between fork and exec.
constexpr int kGo = 3;
constexpr int kReport = 4;
constexpr int kExecutable = 5;

// Everything the child needs, made before the fork; all descriptors are 10 or above.
struct Launch {
  const char* path = nullptr;
  char* const* argv = nullptr;
  char* const* environment = nullptr;
  const char* directory = nullptr;
  int null = -1;
  int output = -1;
  int error = -1;
  int go = -1;
  int report = -1;
  int executable = -1;
};

// Async-signal-safe.
[[noreturn]] void RunChild(const Launch& launch) {
  setpgid(0, 0);
  ResetSignals();
  if (dup2(launch.null, 0) < 0 || dup2(launch.output, 1) < 0 || dup2(launch.error, 2) < 0 ||
      dup3(launch.go, kGo, O_CLOEXEC) < 0 || dup3(launch.report, kReport, O_CLOEXEC) < 0 ||
      (launch.executable >= 0 && dup3(launch.executable, kExecutable, O_CLOEXEC) < 0)) {
    FailChild(launch.report, ChildStage::kStreams);
  }
  // Before waiting: copies of other children's pipes held here would keep those
  // children waiting after the runner's death.
  const int kept = launch.executable >= 0 ? kExecutable : kReport;
  if (close_range(static_cast<unsigned>(kept) + 1, ~0U, 0) != 0) {
    FailChild(kReport, ChildStage::kDescriptors);
  }
  char go = 0;
  ssize_t got = 0;
  do {
    got = read(kGo, &go, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) _exit(127);
  if (chdir(launch.directory) != 0) FailChild(kReport, ChildStage::kDirectory);
  if (launch.executable >= 0) {
    execveat(kExecutable, "", launch.argv, launch.environment, AT_EMPTY_PATH);
  } else {
    execve(launch.path, launch.argv, launch.environment);
  }
  FailChild(kReport, ChildStage::kExec);
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

base::Error Explain(const SpawnRequest& request, const ChildFailure& failure) {
  const std::string reason = std::strerror(failure.error);
  std::string message;
  switch (failure.stage) {
    case ChildStage::kDirectory:
      message = request.working_directory.string() + ": cannot be the working folder: " + reason;
      break;
    case ChildStage::kExec:
      message = request.path.string() + ": cannot be executed: " + reason;
      if (failure.error == EACCES) message += "; make it executable (chmod +x)";
      if (failure.error == ENOENT) message += "; the interpreter or loader it names is missing";
      if (failure.error == ENOEXEC) message += "; it is neither a program nor begins with #!";
      if (failure.error == E2BIG) message += "; argv and environment are too long";
      break;
    case ChildStage::kDescriptors:
      message = request.path.string() + ": cannot close descriptors before exec: " + reason +
                "; Linux 5.9 or later is needed";
      break;
    case ChildStage::kStreams:
    case ChildStage::kFork:
      message = request.path.string() + ": cannot set up its streams: " + reason;
      break;
  }
  return {base::ErrorKind::kInfrastructure, message};
}

void Reap(pid_t pid) {
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

base::Result<Child> Spawn(const SpawnRequest& request,
                          const std::function<base::Status(pid_t)>& before_run) {
  std::vector<std::string> argv_texts = request.argv;
  std::vector<std::string> environment_texts = request.environment;
  const std::vector<char*> argv = Pointers(argv_texts);
  const std::vector<char*> environment = Pointers(environment_texts);
  UG_ASSIGN(const base::Fd null,
            MoveHigh(base::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC))));
  UG_ASSIGN(FdPair go, MakeSocketPair(SOCK_STREAM));
  UG_ASSIGN(FdPair report, MakePipe());
  const Launch launch{
      request.path.c_str(), argv.data(),    environment.data(), request.working_directory.c_str(),
      null.get(),           request.output, request.error >= 0 ? request.error : request.output, go.read.get(),      report.write.get(),
      request.executable};
  Child child;
  int fork_error = 0;
  {
    const SignalsBlocked blocked;
    child.pid = fork();
    if (child.pid == 0) RunChild(launch);
    fork_error = errno;
  }
  if (child.pid < 0) {
    return base::InfrastructureError(request.path.string() +
                                     ": cannot fork: " + std::strerror(fork_error));
  }
  // In both processes: whichever is first, the group exists from here on.
  setpgid(child.pid, child.pid);
  go.read.Close();
  report.write.Close();

  child.pidfd = OpenPidfd(child.pid);
  const auto seen = ReadProcess(child.pid);
  base::Status ready;
  if (!child.pidfd.valid() || !seen) {
    ready = base::InfrastructureError(request.path.string() +
                                      ": the child cannot be seen in /proc or by pidfd");
  } else {
    child.start_time = seen->start_time;
    ready = before_run(child.pid);
  }
  if (!ready) {
    go.write.Close();
    Reap(child.pid);
    return tl::unexpected(std::move(ready).error());
  }
  send(go.write.get(), "g", 1, MSG_NOSIGNAL);
  if (ChildFailure failure; ReadChildFailure(report.read.get(), failure)) {
    Reap(child.pid);
    return tl::unexpected(Explain(request, failure));
  }
  return child;
}

}  // namespace upgrade_gate::server
