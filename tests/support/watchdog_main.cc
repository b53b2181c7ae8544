// `watchdog_main watchdog --run-id ID`: the watchdog alone, as the command runs it.
// It knows two cleaners: `append FILE` adds a line to the file, `late FILE` too, but
// fails twice before.
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include "fixtures/command/cleanup.h"

#include "framework/server/watchdog.h"

namespace {

using upgrade_gate::base::Status;

Status Append(const std::string& file, std::chrono::milliseconds) {
  std::ofstream(file, std::ios::app) << "cleaned\n";
  return {};
}

Status FailTwice(const std::string& file, std::chrono::milliseconds limit) {
  static std::mutex mutex;
  static std::map<std::string, int> calls;
  const std::lock_guard lock(mutex);
  if (++calls[file] <= 2) return upgrade_gate::base::InfrastructureError("not yet");
  return Append(file, limit);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || std::strcmp(argv[1], "watchdog") != 0 || std::strcmp(argv[2], "--run-id") != 0) {
    return 12;
  }
  upgrade_gate::server::RunWatchdog(
      3, argv[3],
      {{"append", Append},
       {"late", FailTwice},
       {upgrade_gate::command::kArgvCleaner, upgrade_gate::command::RunCleanup}});
  return 0;
}
