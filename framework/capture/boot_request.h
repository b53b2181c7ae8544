// What one boot is to do, and of what.
#pragma once

#include <memory>

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

}  // namespace upgrade_gate::capture
