#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "framework/gates/comparison.h"
#include "framework/gates/kinds.h"
#include "framework/gates/wording.h"

namespace upgrade_gate::gates {
namespace {

using evidence::Metric;
using evidence::RoundSummary;

std::string_view Title(Metric metric) {
  switch (metric) {
    case Metric::kTtft:
      return "TTFT";
    case Metric::kTpot:
      return "TPOT";
    case Metric::kE2e:
      return "E2E";
  }
  return "";
}

// The nearest rank of n values is the largest: a percentile by name only.
bool IsMaximum(int percentile, int n) {
  return n > 0 && (percentile * n + 99) / 100 == n;
}

std::optional<double> PercentileOf(const RoundSummary& round, const plan::LatencyGate& rule) {
  const auto latency = round.latency.find(rule.metric);
  if (latency == round.latency.end() || latency->second.count == 0) return std::nullopt;
  const auto value = latency->second.percentiles_ms.find(rule.percentile);
  if (value == latency->second.percentiles_ms.end()) return std::nullopt;
  return value->second;
}

// The fewest values that a percentile of this case was taken from.
int FewestValues(const evidence::Summary& summary, const plan::ResolvedPlan& plan,
                 const plan::Case& of, const plan::LatencyGate& rule) {
  std::optional<int> fewest;
  const plan::Arm* level = rule.max && !rule.arm.empty() ? plan.FindArm(rule.arm) : nullptr;
  for (const plan::Arm* arm : {plan.baseline(), plan.candidate()}) {
    if (level != nullptr) arm = level;
    if (arm == nullptr) continue;
    for (const RoundSummary& round : RoundsOf(summary, of.name, arm->name)) {
      const auto latency = round.latency.find(rule.metric);
      const int count = latency == round.latency.end() ? 0 : latency->second.count;
      fewest = std::min(fewest.value_or(count), count);
    }
  }
  return fewest.value_or(0);
}

Quantity QuantityOf(const plan::ResolvedPlan& plan, const plan::LatencyGate& rule,
                    const evidence::Summary& summary, const plan::Case& of) {
  std::string label = fmt::format("P{} {}", rule.percentile, Title(rule.metric));
  const int n = FewestValues(summary, plan, of, rule);
  if (IsMaximum(rule.percentile, n)) label += fmt::format(" (max of {})", n);
  return {.label = std::move(label),
          .definition = fmt::format("{}; the nearest-rank percentile within each round, successful "
                                    "requests only",
                                    evidence::Describe(rule.metric)),
          .unit = "ms",
          .direction = stats::Direction::kLowerIsBetter,
          .of = [rule](const RoundSummary& round) { return PercentileOf(round, rule); }};
}

Threshold ThresholdOf(const plan::LatencyGate& rule) {
  const double confidence = rule.confidence.fraction();
  constexpr const char* kDagger = "latency covers successful requests only";
  if (rule.max) {
    const double limit = static_cast<double>(rule.max->count()) / 1000.0;
    return {.kind = Kind::kLevel,
            .arm = rule.arm,
            .confidence = confidence,
            .limit = limit,
            .text = fmt::format("maximum {} ms", limit),
            .broken = Finding::kOverThreshold,
            .judge_dagger = false,
            .dagger_text = kDagger};
  }
  const base::Percent increase = rule.max_increase.value_or(base::Percent{0});
  return {.kind = Kind::kRatio,
          .confidence = confidence,
          .limit = 1.0 + increase.fraction(),
          .text = "allowed increase " + PercentText(increase.value),
          .broken = Finding::kRegression,
          .judge_dagger = false,
          .dagger_text = kDagger};
}

}  // namespace

GateResult JudgeLatency(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                        const plan::LatencyGate& rule, const evidence::Summary& summary) {
  return JudgeCases(plan, gate, summary, ThresholdOf(rule),
                    [&](const plan::Case& of) { return QuantityOf(plan, rule, summary, of); });
}

}  // namespace upgrade_gate::gates
