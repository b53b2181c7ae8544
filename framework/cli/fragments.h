// What the gates' own tests left in <run>/fragments.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/base/digest.h"
#include "framework/evidence/layout.h"
#include "framework/gates/judge.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::cli {

struct Fragments {
  std::map<std::string, gates::GateResult> results;  // of this evidence and this plan, by id
  std::map<std::string, std::string> problems;       // why a gate has none, by id
};

// Of every gate of the plan: it is in exactly one of the two.
Fragments ReadFragments(const evidence::Layout& layout, const plan::ResolvedPlan& plan,
                        const base::Sha256Hex& evidence, const base::Sha256Hex& plan_sha256);

// Adds a problem for each result that is not what the judgement says.
void CompareVerdicts(const gates::Judgement& judgement, Fragments& fragments);

}  // namespace upgrade_gate::cli
