#include <fmt/format.h>

#include "framework/gates/comparison.h"
#include "framework/gates/kinds.h"
#include "framework/gates/wording.h"

namespace upgrade_gate::gates {
namespace {

// A † case gets no gain, and no statement about a loss unless the gate asks for
// one on the observed throughput. An absolute minimum is judged on it: only
// tokens of successful requests count, over the whole duration, so failures can
// make the number smaller and never larger.
Threshold ThresholdOf(const plan::ThroughputGate& rule) {
  const double confidence = rule.confidence.fraction();
  if (rule.min) {
    return {.kind = Kind::kLevel,
            .arm = rule.arm,
            .confidence = confidence,
            .limit = rule.min->value,
            .text = fmt::format("minimum {} tok/s", rule.min->value),
            .broken = Finding::kOverThreshold,
            .judge_dagger = true,
            .dagger_text = {}};
  }
  if (rule.min_gain) {
    return {.kind = Kind::kRatio,
            .confidence = confidence,
            .limit = 1.0 + rule.min_gain->fraction(),
            .text = "demanded gain " + PercentText(rule.min_gain->value),
            .broken = Finding::kGainMissed,
            .judge_dagger = false,
            .dagger_text = "no gain is assigned"};
  }
  const base::Percent loss = rule.max_loss.value_or(base::Percent{0});
  return {.kind = Kind::kRatio,
          .confidence = confidence,
          .limit = 1.0 - loss.fraction(),
          .text = "allowed loss " + PercentText(loss.value),
          .broken = Finding::kRegression,
          .judge_dagger = rule.on_failures == plan::OnFailures::kAdvisory,
          .dagger_text = "no loss can be excluded"};
}

}  // namespace

GateResult JudgeThroughput(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                           const plan::ThroughputGate& rule, const evidence::Summary& summary) {
  return JudgeCases(plan, gate, summary, ThresholdOf(rule),
                    [](const plan::Case&) { return OutputThroughput(); });
}

}  // namespace upgrade_gate::gates
