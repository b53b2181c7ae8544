#include "framework/stats/exact_tests.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "framework/stats/distributions.h"

namespace upgrade_gate::stats {
namespace {

// Two tables whose statistics differ by less than this are a tie.
constexpr double kTie = 1e-9;

bool Valid(const FailureCount& count) {
  return count.requests > 0 && count.failures <= count.requests;
}

// Probabilities of the counts first, first + 1, …; what lies outside is below
// 1e-18 of the largest and left out.
struct Pmf {
  std::size_t first = 0;
  std::vector<double> probability;
};

// From the mode outwards, by the ratio of neighbours, normalised by the sum: no
// factorial can overflow. `up(x)` is p(x+1)/p(x).
template <typename Ratio>
Pmf PmfFromRatios(std::size_t lowest, std::size_t highest, std::size_t mode, const Ratio& up) {
  constexpr double kNegligible = 1e-18;
  std::vector<double> below;
  double p = 1.0;
  for (std::size_t x = mode; x > lowest && p > kNegligible; --x) {
    p /= up(x - 1);
    below.push_back(p);
  }
  Pmf pmf;
  pmf.first = mode - below.size();
  pmf.probability.assign(below.rbegin(), below.rend());
  pmf.probability.push_back(1.0);
  p = 1.0;
  for (std::size_t x = mode; x < highest && p > kNegligible; ++x) {
    p *= up(x);
    pmf.probability.push_back(p);
  }
  const double sum = std::accumulate(pmf.probability.begin(), pmf.probability.end(), 0.0);
  for (double& q : pmf.probability) q /= sum;
  return pmf;
}

// 0 < rate < 1.
Pmf BinomialPmf(std::size_t n, double rate) {
  const double odds = rate / (1.0 - rate);
  const auto mode =
      std::min(n, static_cast<std::size_t>(std::floor((static_cast<double>(n) + 1.0) * rate)));
  return PmfFromRatios(0, n, mode, [&](std::size_t x) {
    return odds * static_cast<double>(n - x) / static_cast<double>(x + 1);
  });
}

double PooledScore(std::size_t x_c, std::size_t n_c, std::size_t x_b, std::size_t n_b) {
  const auto nc = static_cast<double>(n_c);
  const auto nb = static_cast<double>(n_b);
  const double pooled = static_cast<double>(x_c + x_b) / (nc + nb);
  if (x_c + x_b == 0 || x_c + x_b == n_c + n_b) return 0.0;
  return (static_cast<double>(x_c) / nc - static_cast<double>(x_b) / nb) /
         std::sqrt(pooled * (1.0 - pooled) * (1.0 / nc + 1.0 / nb));
}

// The tables at least as extreme as the one seen. For each candidate count c,
// Z falls strictly as the baseline count b grows, so they are b < below[c] and,
// two-sided, b >= from[c].
struct Region {
  std::vector<std::size_t> below;
  std::vector<std::size_t> from;  // empty if one-sided
};

template <typename Predicate>
std::size_t FirstTrue(std::size_t end, const Predicate& holds) {
  std::size_t low = 0;
  std::size_t high = end;
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

Region ExtremeTables(std::size_t n_c, std::size_t n_b, double z_seen, bool two_sided) {
  Region region;
  for (std::size_t c = 0; c <= n_c; ++c) {
    region.below.push_back(FirstTrue(
        n_b + 1, [&](std::size_t b) { return PooledScore(c, n_c, b, n_b) < z_seen - kTie; }));
    if (!two_sided) continue;
    region.from.push_back(FirstTrue(
        n_b + 1, [&](std::size_t b) { return PooledScore(c, n_c, b, n_b) <= -z_seen + kTie; }));
  }
  return region;
}

double RegionProbability(const Region& region, std::size_t n_c, std::size_t n_b, double rate) {
  const Pmf c = BinomialPmf(n_c, rate);
  const Pmf b = BinomialPmf(n_b, rate);
  std::vector<double> cumulative(b.probability.size() + 1, 0.0);
  std::partial_sum(b.probability.begin(), b.probability.end(), cumulative.begin() + 1);
  const auto probability_below = [&](std::size_t count) {
    if (count <= b.first) return 0.0;
    return cumulative[std::min(count - b.first, b.probability.size())];
  };
  double sum = 0.0;
  for (std::size_t i = 0; i < c.probability.size(); ++i) {
    const std::size_t x = c.first + i;
    double share = probability_below(region.below[x]);
    if (!region.from.empty()) share += cumulative.back() - probability_below(region.from[x]);
    sum += c.probability[i] * share;
  }
  return sum;
}

// The largest value of f(sin²(theta)) over theta in (0, pi/2). On this scale a
// binomial share has the sd 1/(2·sqrt(n)) everywhere, so f cannot bend faster
// than that and a grid of a fifth of it misses no hill; the best hills are
// then climbed by golden section.
template <typename Function>
double MaximumOverRates(std::size_t requests, const Function& f) {
  const double root = std::sqrt(static_cast<double>(requests));
  const auto steps = static_cast<std::size_t>(std::ceil(16.0 * root)) + 100;
  const double step = std::numbers::pi / 2.0 / static_cast<double>(steps);
  const auto at = [&](double theta) {
    const double sine = std::sin(theta);
    return f(sine * sine);
  };
  std::vector<double> grid(steps + 1, 0.0);
  for (std::size_t i = 1; i < steps; ++i) grid[i] = at(step * static_cast<double>(i));
  double best = *std::max_element(grid.begin(), grid.end());
  for (std::size_t i = 1; i < steps; ++i) {
    const bool hill = grid[i] >= grid[i - 1] && grid[i] >= grid[i + 1];
    if (!hill || grid[i] < 0.99 * best) continue;
    const double golden = (std::sqrt(5.0) - 1.0) / 2.0;
    double low = step * (static_cast<double>(i) - 1.0);
    double high = step * (static_cast<double>(i) + 1.0);
    for (int round = 0; round < 20; ++round) {
      const double left = high - golden * (high - low);
      const double right = low + golden * (high - low);
      const double f_left = at(left);
      const double f_right = at(right);
      best = std::max({best, f_left, f_right});
      (f_left < f_right ? low : high) = f_left < f_right ? left : right;
    }
  }
  return std::min(1.0, best);
}

}  // namespace

std::optional<PValues> Fisher(const FailureCount& candidate, const FailureCount& baseline) {
  if (!Valid(candidate) || !Valid(baseline)) return std::nullopt;
  const std::size_t n = candidate.requests;
  const std::size_t m = baseline.requests;
  const std::size_t failures = candidate.failures + baseline.failures;
  const std::size_t lowest = failures > m ? failures - m : 0;
  const std::size_t highest = std::min(failures, n);
  const double exact_mode = (static_cast<double>(failures) + 1.0) * (static_cast<double>(n) + 1.0) /
                            (static_cast<double>(n + m) + 2.0);
  const std::size_t mode =
      std::clamp(static_cast<std::size_t>(std::floor(exact_mode)), lowest, highest);
  const Pmf pmf = PmfFromRatios(lowest, highest, mode, [&](std::size_t x) {
    return static_cast<double>(failures - x) * static_cast<double>(n - x) /
           (static_cast<double>(x + 1) * static_cast<double>(m + x + 1 - failures));
  });

  const std::size_t seen = candidate.failures;
  const bool kept = seen >= pmf.first && seen - pmf.first < pmf.probability.size();
  const double p_seen = kept ? pmf.probability[seen - pmf.first] : 0.0;
  PValues p{0.0, 0.0};
  for (std::size_t i = 0; i < pmf.probability.size(); ++i) {
    if (pmf.first + i >= seen) p.candidate_worse += pmf.probability[i];
    if (pmf.probability[i] <= p_seen * (1.0 + kTie)) p.two_sided += pmf.probability[i];
  }
  p.candidate_worse = std::min(1.0, p.candidate_worse);
  p.two_sided = std::min(1.0, p.two_sided);
  return p;
}

std::optional<PValues> Barnard(const FailureCount& candidate, const FailureCount& baseline) {
  if (!Valid(candidate) || !Valid(baseline)) return std::nullopt;
  const std::size_t n_c = candidate.requests;
  const std::size_t n_b = baseline.requests;
  if (std::max(n_c, n_b) > kMaxBarnardRequests) return std::nullopt;
  const double z = PooledScore(candidate.failures, n_c, baseline.failures, n_b);
  const auto p_value = [&](double z_seen, bool two_sided) {
    const Region region = ExtremeTables(n_c, n_b, z_seen, two_sided);
    return MaximumOverRates(n_c + n_b,
                            [&](double rate) { return RegionProbability(region, n_c, n_b, rate); });
  };
  PValues p;
  // As the common rate goes to 0, Z = 0 becomes certain.
  if (z > kTie) p.candidate_worse = p_value(z, false);
  if (std::abs(z) > kTie) p.two_sided = p_value(std::abs(z), true);
  return p;
}

double McNemarCandidateWorse(std::size_t candidate_only, std::size_t baseline_only) {
  if (candidate_only == 0) return 1.0;
  // P(X >= a) = P(n - X <= n - a), and n - X is Binomial(n, 1/2) too.
  return BinomialCdf(baseline_only, candidate_only + baseline_only, 0.5);
}

std::vector<double> HolmAdjusted(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0.0;
  for (std::size_t j = 0; j < order.size(); ++j) {
    const double scaled = static_cast<double>(order.size() - j) * p_values[order[j]];
    largest = std::min(1.0, std::max(largest, scaled));
    adjusted[order[j]] = largest;
  }
  return adjusted;
}

}  // namespace upgrade_gate::stats
