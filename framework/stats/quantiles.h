// Percentiles of one round's values, their medians over rounds, and how many
// values a bound on a percentile needs. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace upgrade_gate::stats {

// The nearest-rank percentile: the ceil(percent/100 · n)-th smallest of n
// values, always a value that was seen (Hyndman and Fan 1996, type 1).
//
// `failures` requests have no value but stay in the denominator: they are
// counted as +infinity. No value for an empty set, when the rank falls on a
// failure, when percent is outside (0, 100], or when a value is not finite.
std::optional<double> NearestRank(std::span<const double> values, double percent,
                                  std::size_t failures = 0);

// The middle value, or the mean of the middle two. No value for an empty set or
// when a value is not finite.
std::optional<double> Median(std::span<const double> values);

// An upper confidence bound of a percentile that assumes nothing about the
// distribution: the smallest order statistic k with
// P(Binomial(n, percent/100) <= k-1) >= confidence (David and Nagaraja 2003,
// section 7.1). Assumes independent values, which requests inside a round are
// not quite: display it, do not gate on it.
//
// No value where NearestRank has none, when n is too small for a bound to exist
// (see ValuesForUpperBound), or when the bound falls on a failure.
std::optional<double> PercentileUpperBound(std::span<const double> values, double percent,
                                           std::size_t failures = 0, double confidence = 0.95);

// The smallest n for which PercentileUpperBound exists: the maximum of n values
// is above the percentile with probability 1 - (percent/100)^n, so 59 for P95
// and 299 for P99 at 95 %. No value for percent or confidence outside the open
// ranges (0, 100) and (0, 1).
std::optional<std::size_t> ValuesForUpperBound(double percent, double confidence = 0.95);

}  // namespace upgrade_gate::stats
