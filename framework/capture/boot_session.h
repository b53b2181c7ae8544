// One boot: start, readiness, its cases with warm-up and rounds, stop.
#pragma once

#include "framework/base/result.h"
#include "framework/capture/boot_request.h"
#include "framework/evidence/records.h"

namespace upgrade_gate::capture {

// The most requests that any case of the plan may have in flight at once.
int MostInFlight(const plan::ResolvedPlan& plan);

// Measures the step's pending cases. Service loss ends the boot and is told in
// the returned record, not as an error; an error means that nothing more can be
// measured now (server does not start, disk, interruption) and is resumable.
base::Result<evidence::BootRecord> RunBoot(const BootRequest& request);

}  // namespace upgrade_gate::capture
