// What an earlier call left in the run's folder, and what that means for this one.
#pragma once

#include <string>
#include <vector>

#include "framework/base/result.h"
#include "framework/evidence/store.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::capture {

// One entry of the plan's order and what of it is still to be measured.
struct StepState {
  int number = 0;  // from 1
  const plan::BootStep* step = nullptr;
  std::vector<std::string> pending;  // cases, in the step's order; empty: the step is done
  int resumes = 0;                   // the interrupted boot; 0: none
};

// A case of a step is done if all its rounds come from one boot, or its guard
// ended it. Every other round of the step is superseded here, on disk, and boots
// that never said how they ended are marked as interrupted.
base::Result<std::vector<StepState>> PrepareSteps(const plan::ResolvedPlan& plan,
                                                  const evidence::Layout& layout);

// What a killed runner left of its servers' logs (Layout::live_log) becomes the
// log of the boot.
base::Status TakeLeftLogs(const evidence::Layout& layout);

// Boots that measured and were lost, even after their last request, or were another
// server at their end than at their start; a line each. Nobody knows what of their
// rounds is the server's own doing.
std::vector<std::string> FindBrokenBoots(const std::vector<evidence::BootRecord>& boots,
                                         const std::vector<evidence::RoundRecord>& rounds);

// What keeps the measured rounds from being what the plan says, a line each;
// empty: complete.
std::vector<std::string> FindGaps(const plan::ResolvedPlan& plan,
                                  const std::vector<evidence::RoundRecord>& rounds);

}  // namespace upgrade_gate::capture
