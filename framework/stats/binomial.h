// Failure counts: exact bounds of a rate, budgets, and the difference of two
// rates. Pure functions; any thread.
//
// A rate is of this workload, not a production rate: requests of one run are
// not a random sample of a fleet's.
#pragma once

#include <cstddef>
#include <optional>

#include "framework/stats/decide.h"
#include "framework/stats/estimate.h"

namespace upgrade_gate::stats {

// Invalid, and without any answer below, if there are no requests or more
// failures than requests.
struct FailureCount {
  std::size_t failures = 0;
  std::size_t requests = 0;
};

// Each bound alone holds with `confidence`, in (0.5, 1) (Clopper and Pearson
// 1934): lower = Beta⁻¹(1-confidence; x, n-x+1), 0 for x = 0;
// upper = Beta⁻¹(confidence; x+1, n-x), 1 for x = n.
std::optional<Interval> ClopperPearson(const FailureCount& count, double confidence = 0.95);

// Pass if the upper bound is at most `budget`, fail if the lower bound is above
// it, else inconclusive. Also inconclusive: no requests, or a budget outside
// [0, 1). A budget of 0 can fail but never pass.
Outcome DecideBudget(const FailureCount& count, double budget, double confidence = 0.95);

// What a budget means for a planned number of requests.
struct BudgetCounts {
  std::optional<std::size_t> passes_up_to;  // empty: even no failure at all does not pass
  std::optional<std::size_t> fails_from;    // empty: no count fails
};
BudgetCounts CountsForBudget(std::size_t requests, double budget, double confidence = 0.95);

// Wilson's score interval (1927), both bounds at once with 2·confidence - 1.
std::optional<Interval> Wilson(const FailureCount& count, double confidence = 0.95);

struct RateDifference {
  double difference = 0.0;  // candidate's rate - baseline's rate
  // Each bound alone holds with `confidence`: 0.95 is a two-sided 90 %
  // interval, 0.975 the two-sided 95 % one.
  Interval interval;
};

// Newcombe's hybrid of Wilson's limits l, u for unpaired rates (1998b, method 10):
//   lower = d - sqrt((p_c - l_c)² + (u_b - p_b)²)
//   upper = d + sqrt((u_c - p_c)² + (p_b - l_b)²)
std::optional<RateDifference> NewcombeDifference(const FailureCount& candidate,
                                                 const FailureCount& baseline,
                                                 double confidence = 0.95);

// Pass if the upper bound of the difference is below `margin` (0.01 = one
// percentage point allowed), fail if the lower bound is above it, else
// inconclusive. Also inconclusive: no requests in an arm, or a margin outside (-1, 1).
Outcome DecideRateDifference(const FailureCount& candidate, const FailureCount& baseline,
                             double margin, double confidence = 0.95);

}  // namespace upgrade_gate::stats
