// The argv that a boot of an arm starts, as the plan says it: with $PORT and the
// other variables in their places. What a boot records is compared with it.
#pragma once

#include <string>
#include <vector>

#include "framework/plan/plan.h"

namespace upgrade_gate::plan {

// `argv` with `command` in place of each element that is "$COMMAND".
std::vector<std::string> SpliceCommand(const std::vector<std::string>& argv,
                                       const std::vector<std::string>& command);

// process: the executable's path, then the command; docker: the command; command:
// `start` with the command in it; endpoint: nothing, it starts none.
std::vector<std::string> LaunchArgv(const ServerSettings& server, const Arm& arm);

}  // namespace upgrade_gate::plan
