#include "framework/stats/planning.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/stats/distributions.h"

namespace upgrade_gate::stats {
namespace {

bool IsNoise(double sd) {
  return sd >= 0.0 && std::isfinite(sd);
}

bool Valid(const PlannedComparison& planned) {
  return planned.boots > 0 && planned.rounds > 0 && IsNoise(planned.round_noise) &&
         IsNoise(planned.boot_noise) && planned.alpha > 0.0 && planned.alpha < 0.5;
}

// P(mean - half_width > 0) for mean ~ Normal(distance, sd).
double ChanceAbove(double distance, double half_width, double sd) {
  if (sd > 0.0) return NormalCdf((distance - half_width) / sd);
  return distance > half_width ? 1.0 : 0.0;
}

double ChanceOneBoot(const PlannedComparison& planned, double distance) {
  const auto n = static_cast<double>(planned.rounds);
  const double of_rounds = planned.round_noise / std::sqrt(n);
  const double of_boots = std::numbers::sqrt2 * planned.boot_noise;
  const double t = StudentQuantile(1.0 - planned.alpha, n - 1.0);
  const double z = NormalQuantile(1.0 - planned.alpha);
  const double sd = std::hypot(of_rounds, of_boots);
  return ExpectationOverSd(n - 1.0, [&](double seen) {
    return ChanceAbove(distance, std::hypot(t * of_rounds * seen, z * of_boots), sd);
  });
}

double ChanceBootMeans(const PlannedComparison& planned, double distance) {
  const auto n = static_cast<double>(planned.rounds);
  const auto k = static_cast<double>(planned.boots);
  // Of the difference of two boot means; each arm has half of the variance.
  const double of_pair =
      std::hypot(planned.round_noise / std::sqrt(n), std::numbers::sqrt2 * planned.boot_noise);
  const double sd = of_pair / std::sqrt(k);
  // The sum of the arms' variances and one arm's share of it are independent.
  return ExpectationOverBeta((k - 1.0) / 2.0, [&](double share) {
    const double df = (k - 1.0) / (share * share + (1.0 - share) * (1.0 - share));
    const double t = StudentQuantile(1.0 - planned.alpha, df);
    return ExpectationOverSd(2.0 * (k - 1.0),
                             [&](double seen) { return ChanceAbove(distance, t * sd * seen, sd); });
  });
}

}  // namespace

std::optional<double> ChanceOfPass(const PlannedComparison& planned, double distance_log) {
  if (!Valid(planned) || !std::isfinite(distance_log)) return std::nullopt;
  double chance = 0.0;
  if (planned.boots >= 2) {
    chance = ChanceBootMeans(planned, distance_log);
  } else if (planned.rounds >= 2) {
    chance = ChanceOneBoot(planned, distance_log);
  }
  if (!std::isfinite(chance)) return std::nullopt;
  return std::clamp(chance, 0.0, 1.0);
}

std::optional<double> ChanceUnchangedPasses(const PlannedComparison& planned, Direction direction,
                                            double margin) {
  const auto limit = RelativeLimit(direction, margin);
  if (!limit) return std::nullopt;
  const double log_limit = std::log(*limit);
  return ChanceOfPass(planned, direction == Direction::kHigherIsBetter ? -log_limit : log_limit);
}

std::optional<double> ChanceAllPass(std::span<const double> chances) {
  if (chances.empty()) return std::nullopt;
  double product = 1.0;
  for (const double chance : chances) {
    if (!(chance >= 0.0 && chance <= 1.0)) return std::nullopt;
    product *= chance;
  }
  return product;
}

std::optional<double> SmallestDetectableGap(const PlannedComparison& planned, double power) {
  if (!(power > 0.0 && power < 1.0)) return std::nullopt;
  const auto reaches = [&](double distance) {
    return ChanceOfPass(planned, distance).value_or(0.0) >= power;
  };
  if (reaches(0.0)) return 0.0;
  double low = 0.0;
  double high = 1e-6;
  // Past a gap of exp(32) nothing is being measured.
  for (; !reaches(high); high *= 2.0) {
    low = high;
    if (high > 32.0) return std::nullopt;
  }
  while (high - low > 1e-7 * high) {
    const double middle = low + (high - low) / 2.0;
    (reaches(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace upgrade_gate::stats
