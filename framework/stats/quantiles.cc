#include "framework/stats/quantiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "framework/stats/distributions.h"

namespace upgrade_gate::stats {
namespace {

bool AllFinite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

// 1-based. The slack keeps 95 % of 20 at 19 whatever the last bit of the product.
std::size_t Rank(double percent, std::size_t n) {
  const double exact = percent * static_cast<double>(n) / 100.0;
  const auto rank = static_cast<std::size_t>(std::ceil(exact * (1.0 - 1e-12)));
  return std::clamp<std::size_t>(rank, 1, n);
}

double OrderStatistic(std::span<const double> values, std::size_t rank) {
  std::vector<double> copy(values.begin(), values.end());
  const auto nth = copy.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(copy.begin(), nth, copy.end());
  return *nth;
}

}  // namespace

std::optional<double> NearestRank(std::span<const double> values, double percent,
                                  std::size_t failures) {
  if (!(percent > 0.0 && percent <= 100.0) || !AllFinite(values)) return std::nullopt;
  const std::size_t n = values.size() + failures;
  if (n == 0) return std::nullopt;
  const std::size_t rank = Rank(percent, n);
  if (rank > values.size()) return std::nullopt;
  return OrderStatistic(values, rank);
}

std::optional<double> Median(std::span<const double> values) {
  if (values.empty() || !AllFinite(values)) return std::nullopt;
  const std::size_t n = values.size();
  const double upper = OrderStatistic(values, n / 2 + 1);
  if (n % 2 == 1) return upper;
  return std::midpoint(OrderStatistic(values, n / 2), upper);
}

std::optional<double> PercentileUpperBound(std::span<const double> values, double percent,
                                           std::size_t failures, double confidence) {
  const auto needed = ValuesForUpperBound(percent, confidence);
  const std::size_t n = values.size() + failures;
  if (!needed || n < *needed || !AllFinite(values)) return std::nullopt;
  // Bisection over k: the binomial distribution function grows with k, and
  // k = n satisfies the condition because n >= *needed.
  std::size_t low = 1;
  std::size_t high = n;
  while (low < high) {
    const std::size_t k = low + (high - low) / 2;
    if (BinomialCdf(k - 1, n, percent / 100.0) >= confidence) {
      high = k;
    } else {
      low = k + 1;
    }
  }
  if (low > values.size()) return std::nullopt;
  return OrderStatistic(values, low);
}

std::optional<std::size_t> ValuesForUpperBound(double percent, double confidence) {
  if (!(percent > 0.0 && percent < 100.0)) return std::nullopt;
  if (!(confidence > 0.0 && confidence < 1.0)) return std::nullopt;
  const double n = std::ceil(std::log1p(-confidence) / std::log(percent / 100.0) - 1e-9);
  // Beyond any run: a percent within a rounding error of 100.
  if (!(n < 1e15)) return std::nullopt;
  return static_cast<std::size_t>(std::max(n, 1.0));
}

}  // namespace upgrade_gate::stats
