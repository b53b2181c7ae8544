// One boot: start, readiness, its cases with warm-up and rounds, stop.
#pragma once

#include <memory>

#include "framework/base/result.h"
#include "framework/capture/capture.h"
#include "framework/capture/progress.h"
#include "framework/capture/run_state.h"
#include "framework/evidence/records.h"
#include "framework/plan/plan_file.h"
#include "framework/server/launcher.h"
#include "framework/server/log_rules.h"

namespace upgrade_gate::capture {

struct BootRequest {
  const plan::LoadedPlan& plan;
  const evidence::Layout& layout;
  const Environment& environment;
  const StepState& step;
  int number = 0;                       // of the boot
  const server::ArmIdentity& identity;  // of its arm, proved before anything started
  const std::shared_ptr<const server::LogRules>& rules;
  Status& status;         // kept up to date and written as the boot goes on
  base::Instant began;    // of this call's measuring, and the rounds that were done
  int rounds_before = 0;  // by then: what the time left is estimated from
};

// The most requests that any case of the plan may have in flight at once.
int MostInFlight(const plan::ResolvedPlan& plan);

// Measures the step's pending cases. Service loss ends the boot and is told in
// the returned record, not as an error; an error means that nothing more can be
// measured now (server does not start, disk, interruption) and is resumable.
base::Result<evidence::BootRecord> RunBoot(const BootRequest& request);

}  // namespace upgrade_gate::capture
