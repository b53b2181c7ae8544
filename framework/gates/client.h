// What the client's own health makes of the rounds that gates look at.
#pragma once

#include <string>
#include <vector>

#include "framework/evidence/summary.h"
#include "framework/gates/provenance.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gates {

// Rounds of the case whose numbers the client or a throttled GPU hurt. A round without health, of
// an older client, is not judged.
std::vector<Problem> FindClientFaults(const evidence::Summary& summary, const plan::Case& of,
                                      const std::vector<std::string>& arms);

// Lines for people: the faults of all rounds, and what else the client noted, a
// line for each case and arm.
std::vector<std::string> ClientLines(const plan::ResolvedPlan& plan,
                                     const evidence::Summary& summary);

}  // namespace upgrade_gate::gates
