// `watchdog_main watchdog --run-id ID`: the watchdog alone, as the command runs it.
#include <cstring>

#include "framework/server/watchdog.h"

int main(int argc, char** argv) {
  if (argc != 4 || std::strcmp(argv[1], "watchdog") != 0 || std::strcmp(argv[2], "--run-id") != 0) {
    return 12;
  }
  upgrade_gate::server::RunWatchdog(3, argv[3]);
  return 0;
}
