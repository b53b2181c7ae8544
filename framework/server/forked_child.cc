#include "framework/server/forked_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace upgrade_gate::server {
namespace {

constexpr int kFirstHighDescriptor = 10;

base::Result<FdPair> MovePairHigh(const int (&fds)[2]) {
  base::Fd first(fds[0]);
  base::Fd second(fds[1]);
  FdPair pair;
  UG_ASSIGN(pair.read, MoveHigh(std::move(first)));
  UG_ASSIGN(pair.write, MoveHigh(std::move(second)));
  return pair;
}

}  // namespace

void ResetSignals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void FailChild(int report, ChildStage stage) {
  const ChildFailure failure{stage, errno};
  // Nobody could be told if this fails, and the exit code says it too.
  [[maybe_unused]] const ssize_t put = write(report, &failure, sizeof failure);
  _exit(127);
}

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

base::Result<base::Fd> MoveHigh(base::Fd fd) {
  base::Fd high(fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstHighDescriptor));
  if (!high.valid()) {
    return base::InfrastructureError(std::string("cannot duplicate a descriptor: ") +
                                     std::strerror(errno));
  }
  return high;
}

base::Result<FdPair> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return base::InfrastructureError(std::string("cannot create a pipe: ") + std::strerror(errno));
  }
  return MovePairHigh(fds);
}

base::Result<FdPair> MakeSocketPair(int type) {
  int fds[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) != 0) {
    return base::InfrastructureError(std::string("cannot create a socket pair: ") +
                                     std::strerror(errno));
  }
  return MovePairHigh(fds);
}

bool ReadChildFailure(int report, ChildFailure& failure) {
  for (;;) {
    // A pipe delivers so few bytes whole.
    const ssize_t got = read(report, &failure, sizeof failure);
    if (got < 0 && errno == EINTR) continue;
    return got == static_cast<ssize_t>(sizeof failure);
  }
}

}  // namespace upgrade_gate::server
