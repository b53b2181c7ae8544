// What a ready server's endpoints say of it, for the log rules to take facts from.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/base/clock.h"
#include "framework/load/transport.h"
#include "framework/server/log_rules.h"

namespace upgrade_gate::probes {

// GETs each path below `url`, at most ten seconds each. An answer that is not a
// whole 200 is one without a body, and its problem says what came.
std::map<std::string, server::Answer> AskEndpoints(load::Transport& transport, base::Clock& clock,
                                                   const std::string& url,
                                                   const std::vector<std::string>& paths,
                                                   const std::function<bool()>& give_up);

}  // namespace upgrade_gate::probes
