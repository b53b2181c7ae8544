// Waiting for processes in tests: on conditions, with a deadline.
#pragma once

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "framework/base/file.h"
#include "framework/server/process_table.h"

namespace upgrade_gate::testing_support {

// Generous: reached only by a failure, also under sanitizers on a loaded machine.
inline constexpr std::chrono::seconds kPatience{30};

inline bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

inline bool IsAlive(pid_t pid) {
  const auto process = server::ReadProcess(pid);
  return process && process->alive();
}

// The numbers after `key` on the first line of `text` that begins with it.
inline std::vector<pid_t> PidsAfter(const std::string& key, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key + " ")) continue;
    std::istringstream numbers(line.substr(key.size()));
    std::vector<pid_t> pids;
    for (pid_t pid = 0; numbers >> pid;) pids.push_back(pid);
    return pids;
  }
  return {};
}

// A child in its own process group, standard output in a file of its own; killed
// with its group and reaped at the end.
class TestProcess {
 public:
  TestProcess(std::vector<std::string> argv, std::vector<std::string> environment = {}) {
    char name[] = "/tmp/upgrade-gate-test-XXXXXX";
    const int out = mkstemp(name);
    path_ = name;
    std::vector<char*> arguments, variables;
    for (std::string& text : argv) arguments.push_back(text.data());
    for (std::string& text : environment) variables.push_back(text.data());
    arguments.push_back(nullptr);
    variables.push_back(nullptr);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    if (posix_spawn(&pid_, arguments[0], &actions, &attributes, arguments.data(),
                    variables.data()) != 0) {
      pid_ = -1;
    }
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(out);
  }
  ~TestProcess() {
    for (const pid_t pid : PidsAfter("pids", output())) {
      if (pid != pid_ && IsAlive(pid)) kill(pid, SIGKILL);
    }
    if (pid_ > 0) {
      kill(-pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove(path_);
  }
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;

  pid_t pid() const { return pid_; }
  std::string output() const { return base::ReadFile(path_, 1 << 20).value_or(""); }
  // Everything it said it started, itself first; empty if it never got ready.
  std::vector<pid_t> WaitForPids() const {
    Eventually([&] { return output().ends_with("ready\n"); });
    return PidsAfter("pids", output());
  }

 private:
  std::filesystem::path path_;
  pid_t pid_ = -1;
};

}  // namespace upgrade_gate::testing_support
