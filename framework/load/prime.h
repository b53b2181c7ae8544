// Opens connections before they are needed, so that no connect time falls into
// a measurement. Blocks until they are there, 5 s at most.
#pragma once

#include <span>
#include <string>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/load/transport.h"

namespace upgrade_gate::load {

// By as many concurrent GET /health, dealt out over all of the transports as
// RunLoad will deal out its slots. A server that does not answer in time shows itself in what
// follows: only the failure of a transport is an error.
base::Status PrimeConnections(std::span<Transport* const> transports, base::Clock& clock,
                              const std::string& base_url, int connections);

}  // namespace upgrade_gate::load
