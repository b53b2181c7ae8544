#include "framework/gates/series.h"

#include <algorithm>
#include <map>

#include "framework/stats/quantiles.h"

namespace upgrade_gate::gates {

Quantity OutputThroughput() {
  return {.label = "output throughput",
          .definition = "tokens of successful requests / the round's whole duration",
          .unit = "tok/s",
          .direction = stats::Direction::kHigherIsBetter,
          .of = [](const evidence::RoundSummary& round) -> std::optional<double> {
            return round.output_tokens_per_s;
          }};
}

bool Series::all_values() const {
  return !values.empty() &&
         std::all_of(values.begin(), values.end(), [](const auto& v) { return v.has_value(); });
}

bool Series::all_zero() const {
  return !values.empty() &&
         std::all_of(values.begin(), values.end(), [](const auto& v) { return v && *v == 0.0; });
}

Series SeriesOf(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                const plan::Case& of, const std::string& arm, const Quantity& quantity) {
  Series series;
  series.arm = arm;
  series.coverage = Cover(plan, summary, of, arm);
  std::map<int, std::map<int, double>> by_boot;
  std::vector<double> seen;
  for (const evidence::RoundSummary& round : RoundsOf(summary, of.name, arm)) {
    series.rounds.push_back(&round);
    series.values.push_back(quantity.of(round));
    auto& boot = by_boot[round.boot];
    if (const auto& value = series.values.back()) {
      boot.emplace(round.round, *value);
      seen.push_back(*value);
    }
    series.counts.requests += round.counts.requests;
    for (const auto& [kind, count] : round.counts.by_kind) series.counts.by_kind[kind] += count;
  }
  for (const auto& [boot, values] : by_boot) {
    std::vector<double> in_order;
    for (int next = 1; values.contains(next); ++next) in_order.push_back(values.at(next));
    series.by_boot.push_back(std::move(in_order));
  }
  series.median = stats::Median(seen);
  return series;
}

}  // namespace upgrade_gate::gates
