// What dead runs left among the processes of this machine.
//
// A run is dead if the process that its id names is gone. Only processes of this
// user and of this pid namespace are looked at: elsewhere a number means another
// process, and a run in a container would look dead.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/server/process_table.h"

namespace upgrade_gate::server {

// By the id of the dead run; what descends from its processes is among them.
base::Result<std::map<std::string, std::vector<Process>>> FindLeftovers();

// KILLs what a dead run left. An error names what could not be ended; a run whose
// runner is alive, or whose id names none, is an error too.
base::Result<int> EndLeftovers(const std::string& run_id, const base::Clock& clock);

}  // namespace upgrade_gate::server
