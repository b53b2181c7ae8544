#include "framework/stats/estimate.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "framework/stats/distributions.h"

namespace upgrade_gate::stats {
namespace {

struct Moments {
  double mean = 0.0;
  double variance = 0.0;  // 0 for a single value; the caller knows n
};

Moments MomentsOf(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  Moments moments;
  for (const double v : values) moments.mean += v / n;
  if (values.size() < 2) return moments;
  for (const double v : values) moments.variance += (v - moments.mean) * (v - moments.mean);
  moments.variance /= n - 1.0;
  return moments;
}

ValuesByBoot WithoutEmptyBoots(const ValuesByBoot& values) {
  ValuesByBoot kept;
  for (const auto& boot : values) {
    if (!boot.empty()) kept.push_back(boot);
  }
  return kept;
}

bool Usable(const ValuesByBoot& values) {
  return std::all_of(values.begin(), values.end(), [](const auto& boot) {
    return std::all_of(boot.begin(), boot.end(),
                       [](double v) { return std::isfinite(v) && v > 0.0; });
  });
}

bool Usable(const EstimateOptions& options) {
  return options.alpha > 0.0 && options.alpha < 0.5 && options.boot_noise >= 0.0 &&
         std::isfinite(options.boot_noise);
}

std::vector<double> LogBootMeans(const ValuesByBoot& values) {
  std::vector<double> logs;
  for (const auto& boot : values) logs.push_back(std::log(MomentsOf(boot).mean));
  return logs;
}

ArmUnits UnitsOf(const ValuesByBoot& values) {
  ArmUnits units;
  units.boots = values.size();
  for (const auto& boot : values) units.rounds += boot.size();
  if (units.boots >= 2) {
    const double sd = std::sqrt(MomentsOf(LogBootMeans(values)).variance);
    if (std::isfinite(sd)) units.boot_sd_log = sd;
  }
  return units;
}

// An arm seen round by round.
struct RoundView {
  std::vector<double> logs;              // a value an index: the log of the mean over boots
  std::vector<std::size_t> boots_there;  // how many boots have that index
};

RoundView ByRound(const ValuesByBoot& values) {
  RoundView view;
  std::size_t longest = 0;
  for (const auto& boot : values) longest = std::max(longest, boot.size());
  for (std::size_t i = 0; i < longest; ++i) {
    std::vector<double> there;
    for (const auto& boot : values) {
      if (i < boot.size()) there.push_back(boot[i]);
    }
    view.logs.push_back(std::log(MomentsOf(there).mean));
    view.boots_there.push_back(there.size());
  }
  return view;
}

// The sum over boots of the squared weight that each has in the mean over the
// first n indices.
double SquaredBootWeights(const ValuesByBoot& values, const RoundView& view, std::size_t n) {
  double sum = 0.0;
  for (const auto& boot : values) {
    double weight = 0.0;
    for (std::size_t i = 0; i < std::min(n, boot.size()); ++i) {
      weight += 1.0 / static_cast<double>(view.boots_there[i]);
    }
    weight /= static_cast<double>(n);
    sum += weight * weight;
  }
  return sum;
}

// Fills in point and interval around `mean`; anything not finite empties both.
void Finish(Estimate& estimate, double mean, double standard_error) {
  const double point = std::exp(mean);
  if (!std::isfinite(point) || !(point > 0.0)) {
    estimate.missing = Missing::kUsableValue;
    estimate.method = Method::kNone;
    return;
  }
  estimate.point = point;
  if (!estimate.degrees_of_freedom) {
    estimate.missing = Missing::kSecondUnit;
    return;
  }
  const double t = StudentQuantile(1.0 - estimate.options.alpha, *estimate.degrees_of_freedom);
  const double half = std::hypot(t * standard_error, estimate.boot_noise_log);
  const Interval interval{std::exp(mean - half), std::exp(mean + half)};
  if (!std::isfinite(half) || !std::isfinite(interval.upper) || !(interval.lower > 0.0)) {
    estimate.missing = Missing::kUsableValue;
    return;
  }
  estimate.half_width_log = half;
  estimate.interval = interval;
  estimate.missing = Missing::kNothing;
}

// The t interval of the mean of `logs`, widened by `boot_noise_log`.
void FinishOneSample(Estimate& estimate, std::span<const double> logs) {
  const Moments moments = MomentsOf(logs);
  const auto n = static_cast<double>(logs.size());
  estimate.units = logs.size();
  if (logs.size() >= 2) {
    estimate.sd_log = std::sqrt(moments.variance);
    estimate.degrees_of_freedom = n - 1.0;
  }
  Finish(estimate, moments.mean, std::sqrt(moments.variance / n));
}

void FinishWelch(Estimate& estimate, std::span<const double> candidate,
                 std::span<const double> baseline) {
  const Moments c = MomentsOf(candidate);
  const Moments b = MomentsOf(baseline);
  const auto n_c = static_cast<double>(candidate.size());
  const auto n_b = static_cast<double>(baseline.size());
  const double v_c = c.variance / n_c;
  const double v_b = b.variance / n_b;
  estimate.units = std::min(candidate.size(), baseline.size());
  estimate.sd_log = std::sqrt(c.variance + b.variance);
  estimate.degrees_of_freedom = n_c + n_b - 2.0;
  // Scaled by the larger, so that tiny variances do not underflow to 0/0.
  if (const double scale = std::max(v_c, v_b); scale > 0.0) {
    const double share_c = v_c / scale;
    const double share_b = v_b / scale;
    estimate.degrees_of_freedom =
        (share_c + share_b) * (share_c + share_b) /
        (share_c * share_c / (n_c - 1.0) + share_b * share_b / (n_b - 1.0));
  }
  Finish(estimate, c.mean - b.mean, std::sqrt(v_c + v_b));
}

void FinishPairedRounds(Estimate& estimate, const ValuesByBoot& candidate,
                        const ValuesByBoot& baseline) {
  const RoundView c = ByRound(candidate);
  const RoundView b = ByRound(baseline);
  const std::size_t n = std::min(c.logs.size(), b.logs.size());
  std::vector<double> logs;
  for (std::size_t i = 0; i < n; ++i) logs.push_back(c.logs[i] - b.logs[i]);
  for (const auto* arm : {&candidate, &baseline}) {
    for (const auto& boot : *arm)
      estimate.unpaired_rounds += boot.size() - std::min(boot.size(), n);
  }
  const double weights = SquaredBootWeights(candidate, c, n) + SquaredBootWeights(baseline, b, n);
  estimate.boot_noise_assumed = true;
  estimate.boot_noise_log = NormalQuantile(1.0 - estimate.options.alpha) *
                            estimate.options.boot_noise * std::sqrt(weights);
  FinishOneSample(estimate, logs);
}

}  // namespace

Estimate EstimateRatio(const ValuesByBoot& candidate_by_boot, const ValuesByBoot& baseline_by_boot,
                       const EstimateOptions& options) {
  const ValuesByBoot candidate = WithoutEmptyBoots(candidate_by_boot);
  const ValuesByBoot baseline = WithoutEmptyBoots(baseline_by_boot);
  Estimate estimate;
  estimate.options = options;
  if (!Usable(options)) {
    estimate.missing = Missing::kUsableOptions;
    return estimate;
  }
  if (!Usable(candidate) || !Usable(baseline)) {
    estimate.missing = Missing::kUsableValue;
    return estimate;
  }
  estimate.candidate = UnitsOf(candidate);
  estimate.baseline = UnitsOf(baseline);
  if (candidate.empty() || baseline.empty()) return estimate;
  if (candidate.size() >= 2 && baseline.size() >= 2) {
    estimate.method = Method::kBootMeans;
    FinishWelch(estimate, LogBootMeans(candidate), LogBootMeans(baseline));
  } else {
    estimate.method = Method::kPairedRounds;
    FinishPairedRounds(estimate, candidate, baseline);
  }
  return estimate;
}

Estimate EstimateLevel(const ValuesByBoot& values_by_boot, const EstimateOptions& options) {
  const ValuesByBoot values = WithoutEmptyBoots(values_by_boot);
  Estimate estimate;
  estimate.options = options;
  if (!Usable(options)) {
    estimate.missing = Missing::kUsableOptions;
    return estimate;
  }
  if (!Usable(values)) {
    estimate.missing = Missing::kUsableValue;
    return estimate;
  }
  estimate.candidate = UnitsOf(values);
  if (values.empty()) return estimate;
  if (values.size() >= 2) {
    estimate.method = Method::kBootMeans;
    FinishOneSample(estimate, LogBootMeans(values));
  } else {
    estimate.method = Method::kRounds;
    estimate.boot_noise_assumed = true;
    estimate.boot_noise_log = NormalQuantile(1.0 - options.alpha) * options.boot_noise;
    FinishOneSample(estimate, ByRound(values).logs);
  }
  return estimate;
}

}  // namespace upgrade_gate::stats
