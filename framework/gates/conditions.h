// What is said beside every decision.
#pragma once

#include <string>
#include <vector>

#include "framework/evidence/summary.h"
#include "framework/gates/judgement.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gates {

// Reads the gates, the comparisons and `rejudged` of the judgement.
std::vector<std::string> ConditionsOf(const plan::ResolvedPlan& plan,
                                      const evidence::Summary& summary, const Judgement& judgement);

}  // namespace upgrade_gate::gates
