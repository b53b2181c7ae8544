// Round values with a mean and an sd of the log ratio that are exact, not drawn.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "framework/stats/estimate.h"

namespace upgrade_gate::stats {

// One boot an arm: the baseline is 100 in every round, and the log ratios are
// log(ratio) + sd·{-1, 0, 1}, whose sample sd is `sd`.
inline ValuesByBoot ThreeRounds(double ratio, double sd) {
  std::vector<double> values;
  for (const double offset : {-1.0, 0.0, 1.0}) {
    values.push_back(100.0 * ratio * std::exp(offset * sd));
  }
  return {values};
}
inline ValuesByBoot ConstantRounds(std::size_t rounds) {
  return {std::vector<double>(rounds, 100.0)};
}

inline Estimate ThreeRoundRatio(double ratio, double sd, const EstimateOptions& options) {
  return EstimateRatio(ThreeRounds(ratio, sd), ConstantRounds(3), options);
}

inline constexpr EstimateOptions kNoBootNoise{.alpha = 0.05, .boot_noise = 0.0};

}  // namespace upgrade_gate::stats
