// What the plan asks of one arm in one case, and what is there.
#pragma once

#include <string>
#include <vector>

#include "framework/evidence/summary.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gates {

struct Coverage {
  int planned_rounds = 0;
  int planned_requests = 0;
  int rounds = 0;  // there and asked for
  int sent = 0;
  // Rounds or requests that are missing for another reason than the guard, and
  // rounds that nobody asked for: such an arm is not measured.
  std::vector<std::string> gaps;
  // Requests that the guard kept from being sent: the arm may fail, never pass.
  int unsent_by_guard = 0;

  bool whole() const { return gaps.empty() && unsent_by_guard == 0 && planned_rounds > 0; }
  int unsent() const { return planned_requests > sent ? planned_requests - sent : 0; }
};

Coverage Cover(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
               const plan::Case& of, const std::string& arm);

// The rounds of an arm in a case; empty if it was not run.
const std::vector<evidence::RoundSummary>& RoundsOf(const evidence::Summary& summary,
                                                    const std::string& case_name,
                                                    const std::string& arm);

}  // namespace upgrade_gate::gates
