// One arm's round values in one case, ready for an estimate.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/evidence/summary.h"
#include "framework/gates/coverage.h"
#include "framework/plan/plan.h"
#include "framework/stats/decide.h"
#include "framework/stats/estimate.h"

namespace upgrade_gate::gates {

// What a gate looks at.
struct Quantity {
  std::string label;       // "output throughput", "P95 TTFT (max of 8)"
  std::string definition;  // printed beside the number
  std::string unit;        // "tok/s", "ms"
  stats::Direction direction = stats::Direction::kHigherIsBetter;
  std::function<std::optional<double>(const evidence::RoundSummary&)> of;
};

Quantity OutputThroughput();

struct Series {
  std::string arm;
  Coverage coverage;
  std::vector<const evidence::RoundSummary*> rounds;  // by boot, then round
  std::vector<std::optional<double>> values;          // of `rounds`
  // Of each boot the rounds 1, 2, … up to the first that is missing or has no
  // value: an index is a round number, so pairs by index share their inputs.
  stats::ValuesByBoot by_boot;
  std::optional<double> median;
  evidence::FailureCounts counts;

  bool dagger() const { return counts.failed() > 0; }
  int boots() const { return static_cast<int>(by_boot.size()); }
  bool all_values() const;
  // Every round is there with a value of zero: nothing usable was delivered at all.
  bool all_zero() const;
};

Series SeriesOf(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                const plan::Case& of, const std::string& arm, const Quantity& quantity);

}  // namespace upgrade_gate::gates
