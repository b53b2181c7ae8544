#include "framework/stats/binomial.h"

#include <algorithm>
#include <cmath>

#include "framework/stats/distributions.h"

namespace upgrade_gate::stats {
namespace {

bool Valid(const FailureCount& count, double confidence) {
  return count.requests > 0 && count.failures <= count.requests && confidence > 0.5 &&
         confidence < 1.0;
}

double Rate(const FailureCount& count) {
  return static_cast<double>(count.failures) / static_cast<double>(count.requests);
}

// The first count in [0, requests + 1) for which the predicate holds, which
// must be false up to some count and true from there on.
template <typename Predicate>
std::size_t FirstCount(std::size_t requests, const Predicate& holds) {
  std::size_t low = 0;
  std::size_t high = requests + 1;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

std::optional<Interval> ClopperPearson(const FailureCount& count, double confidence) {
  if (!Valid(count, confidence)) return std::nullopt;
  const auto x = static_cast<double>(count.failures);
  const auto n = static_cast<double>(count.requests);
  Interval interval{0.0, 1.0};
  if (count.failures > 0) interval.lower = BetaQuantile(1.0 - confidence, x, n - x + 1.0);
  if (count.failures < count.requests) interval.upper = BetaQuantile(confidence, x + 1.0, n - x);
  if (!std::isfinite(interval.lower) || !std::isfinite(interval.upper)) return std::nullopt;
  return interval;
}

Outcome DecideBudget(const FailureCount& count, double budget, double confidence) {
  const auto bounds = ClopperPearson(count, confidence);
  if (!bounds || !(budget >= 0.0 && budget < 1.0)) return Outcome::kInconclusive;
  if (bounds->upper <= budget) return Outcome::kPass;
  if (bounds->lower > budget) return Outcome::kFail;
  return Outcome::kInconclusive;
}

BudgetCounts CountsForBudget(std::size_t requests, double budget, double confidence) {
  BudgetCounts counts;
  const auto decide = [&](std::size_t failures) {
    return DecideBudget({failures, requests}, budget, confidence);
  };
  if (requests == 0) return counts;
  if (decide(0) == Outcome::kPass) {
    counts.passes_up_to =
        FirstCount(requests, [&](std::size_t x) { return decide(x) != Outcome::kPass; }) - 1;
  }
  if (decide(requests) == Outcome::kFail) {
    counts.fails_from =
        FirstCount(requests, [&](std::size_t x) { return decide(x) == Outcome::kFail; });
  }
  return counts;
}

std::optional<Interval> Wilson(const FailureCount& count, double confidence) {
  if (!Valid(count, confidence)) return std::nullopt;
  const auto n = static_cast<double>(count.requests);
  const double p = Rate(count);
  const double z = NormalQuantile(confidence);
  const double centre = p + z * z / (2.0 * n);
  const double spread = z * std::sqrt(p * (1.0 - p) / n + z * z / (4.0 * n * n));
  const double scale = 1.0 + z * z / n;
  // At 0 and n the ends are exactly 0 and 1, which rounding would miss.
  return Interval{
      count.failures == 0 ? 0.0 : std::max(0.0, (centre - spread) / scale),
      count.failures == count.requests ? 1.0 : std::min(1.0, (centre + spread) / scale)};
}

std::optional<RateDifference> NewcombeDifference(const FailureCount& candidate,
                                                 const FailureCount& baseline, double confidence) {
  const auto c = Wilson(candidate, confidence);
  const auto b = Wilson(baseline, confidence);
  if (!c || !b) return std::nullopt;
  const double p_c = Rate(candidate);
  const double p_b = Rate(baseline);
  const double difference = p_c - p_b;
  return RateDifference{
      .difference = difference,
      .interval = {difference - std::hypot(p_c - c->lower, b->upper - p_b),
                   difference + std::hypot(c->upper - p_c, p_b - b->lower)},
  };
}

Outcome DecideRateDifference(const FailureCount& candidate, const FailureCount& baseline,
                             double margin, double confidence) {
  const auto difference = NewcombeDifference(candidate, baseline, confidence);
  if (!difference || !(margin > -1.0 && margin < 1.0)) return Outcome::kInconclusive;
  if (difference->interval.upper < margin) return Outcome::kPass;
  if (difference->interval.lower > margin) return Outcome::kFail;
  return Outcome::kInconclusive;
}

}  // namespace upgrade_gate::stats
