// p values for two failure counts, for reports: a gate decides by an interval
// (binomial.h), never by a p value. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "framework/stats/binomial.h"

namespace upgrade_gate::stats {

// Against the hypothesis of one common rate. No value where an arm has no
// requests or more failures than requests. Below about 1e-16 they come out as 0.
struct PValues {
  double candidate_worse = 1.0;  // one-sided: the candidate fails more often
  double two_sided = 1.0;
};

// Fisher's exact test, which holds the number of failures of both arms together
// fixed (Fisher 1934). Two-sided: the tables no more probable than the one seen.
std::optional<PValues> Fisher(const FailureCount& candidate, const FailureCount& baseline);

// Barnard's unconditional test (1945) with the pooled score statistic
// (Suissa and Shuster 1985; Mehta and Senchaudhuri 2003):
//   Z = (p_c - p_b) / sqrt(p(1-p)(1/n_c + 1/n_b)), p the pooled rate, 0 for p in {0, 1};
// the p value is the largest probability, over the unknown common rate, of a Z
// at least as large as the one seen (two-sided: of |Z|). The maximum is
// searched on a grid and refined; the result is good to five digits or so.
// No value either beyond kMaxBarnardRequests in an arm, where the search would take seconds.
inline constexpr std::size_t kMaxBarnardRequests = 50'000;
std::optional<PValues> Barnard(const FailureCount& candidate, const FailureCount& baseline);

// The exact McNemar test (1947) for paired prompts, one-sided: with a prompts
// that failed in the candidate alone and b in the baseline alone,
// P(Binomial(a + b, 1/2) >= a). Prompts with the same result in both arms say
// nothing; 1 if there are no others.
double McNemarCandidateWorse(std::size_t candidate_only, std::size_t baseline_only);

// Holm's step-down correction (1979), in the order given:
// max over the j smallest of (m - j + 1)·p_(j), at most 1. For display only,
// because a gate never depends on its neighbours.
std::vector<double> HolmAdjusted(std::span<const double> p_values);

}  // namespace upgrade_gate::stats
