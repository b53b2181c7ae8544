// A server that misbehaves as it is told to. Options, in the order in which they act:
//   --touch=FILE         creates FILE: proof that it ran at all
//   --ignore-term        ignores TERM, and so do its workers
//   --worker             forks a worker that stays in the group
//   --own-session        forks a worker that leaves the group and the session
//   --hidden             the same, with an empty environment (no marker)
//   --listen=PORT        listens on 127.0.0.1:PORT
//   --env                prints its environment
//   --print-mb=N         prints N MiB in lines of 64 bytes
//   --exit=CODE          ends with CODE
//   --exit-on-term=CODE  ends with CODE when TERM comes
// Prints "pids A B …" (itself and the workers), then "ready", and waits for a signal.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

volatile sig_atomic_t exit_code = 0;

[[noreturn]] void WaitForever() {
  for (;;) pause();
}

void ExitOnTerm(int) {
  _exit(exit_code);
}

void Listen(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  void* const raw = &address;
  if (bind(fd, static_cast<sockaddr*>(raw), sizeof address) != 0 || listen(fd, 8) != 0) {
    std::perror("listen");
    std::exit(4);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const auto value = [&](std::string_view name) -> const char* {
    for (const std::string& arg : args) {
      if (arg.starts_with(name)) return arg.c_str() + name.size();
    }
    return nullptr;
  };
  const auto has = [&](std::string_view name) {
    for (const std::string& arg : args) {
      if (arg == name) return true;
    }
    return false;
  };

  if (has("--wait")) WaitForever();  // a hidden worker, after its exec
  if (const char* path = value("--touch=")) close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  if (has("--ignore-term")) signal(SIGTERM, SIG_IGN);
  std::string pids = "pids " + std::to_string(getpid());
  for (const std::string& arg : args) {
    if (arg != "--worker" && arg != "--own-session" && arg != "--hidden") continue;
    const pid_t pid = fork();
    if (pid > 0) {
      pids += " " + std::to_string(pid);
      continue;
    }
    if (arg != "--worker") setsid();
    if (arg == "--hidden") {
      char* nothing[] = {nullptr};
      char wait[] = "--wait";
      char* again[] = {argv[0], wait, nullptr};
      execve("/proc/self/exe", again, nothing);
      _exit(5);
    }
    WaitForever();
  }
  if (const char* port = value("--listen=")) {
    Listen(static_cast<std::uint16_t>(std::strtoul(port, nullptr, 10)));
  }
  if (has("--env")) {
    for (char** entry = environ; *entry != nullptr; ++entry) std::printf("env %s\n", *entry);
  }
  if (const char* megabytes = value("--print-mb=")) {
    const std::string line(63, 'x');
    for (long i = 0; i < std::strtol(megabytes, nullptr, 10) * 16384; ++i) std::puts(line.c_str());
  }
  if (const char* code = value("--exit-on-term=")) {
    exit_code = std::atoi(code);
    signal(SIGTERM, ExitOnTerm);
  }
  std::puts(pids.c_str());
  if (const char* code = value("--exit=")) {
    std::puts("leaving");
    std::fflush(stdout);
    std::_Exit(std::atoi(code));
  }
  std::puts("ready");
  std::fflush(stdout);
  WaitForever();
}
