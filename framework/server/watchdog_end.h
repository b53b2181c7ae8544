// What every watchdog does in the end, however it learned that a runner is dead.
#pragma once

#include <compare>
#include <set>
#include <string>
#include <vector>

#include "framework/server/process_table.h"
#include "framework/server/watchdog.h"

namespace upgrade_gate::server {

struct ListedCleaner {
  std::string name, argument;
  auto operator<=>(const ListedCleaner&) const = default;
};

struct Ended {
  int killed = 0;                     // processes
  std::vector<std::string> problems;  // what is left, and why
};

// Kills `groups` and every process of this user with the run's marker, until none is
// left or ten seconds have passed; runs the cleaners, all at once, each again and again
// until it succeeds or thirty seconds have passed.
Ended EndRun(const std::string& run_id, std::vector<ProcessGroup> groups,
             const std::set<ListedCleaner>& listed, const Cleaners& known);

}  // namespace upgrade_gate::server
