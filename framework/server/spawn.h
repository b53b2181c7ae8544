// Starting one child so that nobody has to trust its luck: what was verified is
// what runs, it inherits nothing, and it runs nothing before somebody guards it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "framework/base/file.h"
#include "framework/base/result.h"
#include "framework/server/process_table.h"

namespace upgrade_gate::server {

struct SpawnRequest {
  std::filesystem::path path;  // absolute
  // The verified file, to be executed by descriptor; invalid: by `path`.
  int executable = -1;
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"; nothing else is passed on
  std::filesystem::path working_directory;
  int output = -1;  // becomes stdout and stderr; stdin is /dev/null
  int error = -1;   // becomes stderr instead; -1: `output` does
};

struct Child {
  pid_t pid = -1;  // leader of its own process group
  std::uint64_t start_time = 0;
  base::Fd pidfd;
};

// Forks; calls `before_run` with the child's process group while the child waits;
// then lets it exec, and reports a failed exec. The child gets its own process
// group, default signals and no descriptor but 0, 1 and 2. If the caller dies or
// `before_run` fails, the child ends without having run anything. On an error no
// child is left. Safe in a process with several threads.
base::Result<Child> Spawn(const SpawnRequest& request,
                          const std::function<base::Status(pid_t)>& before_run);

}  // namespace upgrade_gate::server
