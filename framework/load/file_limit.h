// Open files for as many connections as a load may have.
#pragma once

#include "framework/base/result.h"

namespace upgrade_gate::load {

// Raises this process's soft limit of open files, where it is lower, to what
// `connections` at once and the process itself need; processes started afterwards
// inherit it. An error of kind kInfrastructure if the hard limit is lower: the
// connections that would be missing must not look like failures of the server.
base::Status RaiseFileLimit(int connections);

}  // namespace upgrade_gate::load
