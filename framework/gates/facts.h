// Execution paths: the facts of the arms against each other and against the
// changes that the plan declares.
//
// "Same command" is not "same execution path". What is absent can be compared,
// what is unknown cannot: it is never taken for the same.
#pragma once

#include <string>
#include <vector>

#include "framework/evidence/summary.h"
#include "framework/gates/provenance.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gates {

// Of the boots that measured these cases: facts that differ between candidate and
// baseline or between boots of one arm without being declared, and declared
// changes that did not come true or cannot be told.
std::vector<Problem> FindFactProblems(const plan::ResolvedPlan& plan,
                                      const evidence::Summary& summary,
                                      const std::vector<const plan::Case*>& cases);

// How many facts of candidate and baseline are known and compared.
int ComparedFacts(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                  const std::vector<const plan::Case*>& cases);

// For people: the declared changes and what became of them, what is not known,
// what attribution arms have otherwise, what the servers' logs warned of.
std::vector<std::string> FactLines(const plan::ResolvedPlan& plan,
                                   const evidence::Summary& summary);

}  // namespace upgrade_gate::gates
