// What keeps numbers from being of the experiment that the plan declares.
#pragma once

#include <string>
#include <vector>

#include "framework/evidence/summary.h"
#include "framework/gates/judgement.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gates {

struct Problem {
  Finding finding = Finding::kNone;
  std::string sentence;  // one line, hostile parts made visible
};

// About the boots that measured these cases for these arms: pins, arguments,
// client, and by case and round host, GPUs, inputs and planned counts.
std::vector<Problem> FindProblems(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                                  const std::vector<const plan::Case*>& cases,
                                  const std::vector<std::string>& arms);

// The boots that measured these cases for these arms, by number.
std::vector<int> UsedBoots(const evidence::Summary& summary,
                           const std::vector<const plan::Case*>& cases,
                           const std::vector<std::string>& arms);

}  // namespace upgrade_gate::gates
