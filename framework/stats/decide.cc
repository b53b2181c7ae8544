#include "framework/stats/decide.h"

#include <cmath>

#include "framework/stats/distributions.h"

namespace upgrade_gate::stats {
namespace {

// Distances below this, in log units, are rounding.
constexpr double kSameLog = 1e-12;

bool IsLimit(double limit) {
  return std::isfinite(limit) && limit > 0.0;
}

bool Decisive(const Interval& interval, double limit) {
  return interval.lower > limit || interval.upper < limit;
}

// t(1-alpha, df)·sd/sqrt(n).
double HalfWidth(double alpha, double df, double sd, std::size_t n) {
  return StudentQuantile(1.0 - alpha, df) * sd / std::sqrt(static_cast<double>(n));
}

template <typename HalfWidthOf>
std::optional<std::size_t> SmallestBelow(double distance, std::size_t cap,
                                         const HalfWidthOf& half_width_of) {
  for (std::size_t n = 2; n <= cap; ++n) {
    if (half_width_of(n) < distance) return n;
  }
  return std::nullopt;
}

std::optional<std::size_t> BootsFromMeasuredNoise(const Estimate& estimate, double distance,
                                                  std::size_t cap) {
  const bool ratio = estimate.baseline.boots > 0;
  // Satterthwaite's degrees of freedom for k boots an arm are this times k - 1.
  double df_per_boot = 1.0;
  if (ratio) {
    const double c = std::pow(estimate.candidate.boot_sd_log.value_or(0.0), 2);
    const double b = std::pow(estimate.baseline.boot_sd_log.value_or(0.0), 2);
    const double squares = c * c + b * b;
    df_per_boot = squares > 0.0 ? (c + b) * (c + b) / squares : 2.0;
  }
  return SmallestBelow(distance, cap, [&](std::size_t k) {
    return HalfWidth(estimate.options.alpha, df_per_boot * static_cast<double>(k - 1),
                     *estimate.sd_log, k);
  });
}

std::optional<std::size_t> BootsFromAssumedNoise(const Estimate& estimate, double distance,
                                                 std::size_t cap) {
  const double arms = estimate.baseline.boots > 0 ? 2.0 : 1.0;
  const double of_boots = arms * std::pow(estimate.options.boot_noise, 2);
  const double of_rounds = std::pow(*estimate.sd_log, 2) / static_cast<double>(estimate.units);
  return SmallestBelow(distance, cap, [&](std::size_t k) {
    return HalfWidth(estimate.options.alpha, arms * static_cast<double>(k - 1),
                     std::sqrt(of_boots + of_rounds), k);
  });
}

}  // namespace

std::optional<double> RelativeLimit(Direction direction, double margin) {
  const double limit = direction == Direction::kHigherIsBetter ? 1.0 - margin : 1.0 + margin;
  if (!IsLimit(limit)) return std::nullopt;
  return limit;
}

Outcome Decide(const Estimate& estimate, Direction direction, double limit) {
  if (!estimate.interval || !IsLimit(limit)) return Outcome::kInconclusive;
  const bool above = estimate.interval->lower > limit;
  const bool below = estimate.interval->upper < limit;
  if (!above && !below) return Outcome::kInconclusive;
  const bool higher_is_better = direction == Direction::kHigherIsBetter;
  return above == higher_is_better ? Outcome::kPass : Outcome::kFail;
}

Outcome DecideRelative(const Estimate& ratio, Direction direction, double margin) {
  const auto limit = RelativeLimit(direction, margin);
  return limit ? Decide(ratio, direction, *limit) : Outcome::kInconclusive;
}

Resolution RoundsToResolve(const Estimate& estimate, double limit, std::size_t cap) {
  using Kind = Resolution::Kind;
  Resolution resolution;
  if (!estimate.interval || !estimate.sd_log || !IsLimit(limit)) return resolution;
  if (Decisive(*estimate.interval, limit)) {
    resolution.kind = Kind::kDecided;
    return resolution;
  }
  const double distance = std::abs(std::log(*estimate.point) - std::log(limit));
  if (distance < kSameLog) {
    resolution.kind = Kind::kOnTheLimit;
  } else if (estimate.method == Method::kBootMeans) {
    resolution.boots = BootsFromMeasuredNoise(estimate, distance, cap);
    resolution.kind = resolution.boots ? Kind::kBoots : Kind::kBeyondCap;
  } else if (estimate.boot_noise_log >= distance) {
    resolution.kind = Kind::kBootNoiseAlone;
    resolution.boots = BootsFromAssumedNoise(estimate, distance, cap);
  } else {
    resolution.rounds = SmallestBelow(distance, cap, [&](std::size_t n) {
      const double of_rounds =
          HalfWidth(estimate.options.alpha, static_cast<double>(n - 1), *estimate.sd_log, n);
      return std::hypot(of_rounds, estimate.boot_noise_log);
    });
    resolution.kind = resolution.rounds ? Kind::kRounds : Kind::kBeyondCap;
  }
  return resolution;
}

}  // namespace upgrade_gate::stats
