// What throughput and latency gates share: one case against one threshold.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/evidence/summary.h"
#include "framework/gates/judgement.h"
#include "framework/gates/series.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gates {

enum class Kind {
  kRatio,  // candidate / baseline
  kLevel,  // one arm alone
};

struct Threshold {
  Kind kind = Kind::kRatio;
  std::string arm = {};      // of a level; empty: the candidate
  double confidence = 0.95;  // one-sided, of a pass and of a fail
  double limit = 0;          // a ratio, or in the quantity's unit
  std::string text;          // "allowed loss 3 %"
  Finding broken = Finding::kRegression;
  // A † case is judged on what was observed, and the message says so.
  bool judge_dagger = false;
  // What a † case is told, where it is not judged: "no gain is assigned".
  std::string dagger_text;
};

// Shapes a gate result from one judgement a case: the worst verdict, and the
// first case that has it decides.
GateResult JudgeCases(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                      const evidence::Summary& summary, const Threshold& threshold,
                      const std::function<Quantity(const plan::Case&)>& quantity_of);

// The headline of a case, by the same rules as a relative gate.
CaseComparison CompareCase(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                           const plan::Case& of);

}  // namespace upgrade_gate::gates
