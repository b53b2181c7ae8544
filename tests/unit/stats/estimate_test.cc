#include "framework/stats/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "tests/unit/stats/samples.h"

namespace upgrade_gate::stats {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Worked number: 115.00 -> 113.69 over three rounds.
TEST(EstimateRatio, MilestoneAtHalfAPercentOfNoise) {
  const auto estimate = ThreeRoundRatio(113.69 / 115.00, 0.005, kNoBootNoise);
  ASSERT_TRUE(estimate.interval);
  EXPECT_NEAR(*estimate.point, 0.9886, 0.00005);
  EXPECT_NEAR(estimate.interval->lower, 0.980, 0.0005);
  EXPECT_NEAR(estimate.interval->upper, 0.997, 0.0005);
  EXPECT_EQ(estimate.method, Method::kPairedRounds);
  EXPECT_EQ(estimate.missing, Missing::kNothing);
  EXPECT_EQ(estimate.units, 3u);
  EXPECT_NEAR(*estimate.sd_log, 0.005, 1e-12);
  EXPECT_EQ(*estimate.degrees_of_freedom, 2.0);
}

TEST(EstimateRatio, MilestoneAtSevenTenthsOfAPercentOfNoise) {
  const auto estimate = ThreeRoundRatio(113.69 / 115.00, 0.0071, kNoBootNoise);
  ASSERT_TRUE(estimate.interval);
  EXPECT_NEAR(estimate.interval->lower, 0.977, 0.0005);
  EXPECT_NEAR(estimate.interval->upper, 1.0005, 0.00005);
}

// The figures printed for 8K/C8 are two-sided 95 % intervals (t = 4.303), with
// 0.71 % on the ratio and with 10 % an arm.
TEST(EstimateRatio, LongInputsAtBothNoisesAsTwoSided95) {
  const EstimateOptions options{.alpha = 0.025, .boot_noise = 0.0};
  const auto quiet = ThreeRoundRatio(2.23, 0.0071, options);
  EXPECT_NEAR(quiet.interval->lower, 2.19, 0.005);
  EXPECT_NEAR(quiet.interval->upper, 2.27, 0.005);
  const auto noisy = ThreeRoundRatio(2.23, 0.10 * std::numbers::sqrt2, options);
  EXPECT_NEAR(noisy.interval->lower, 1.57, 0.005);
  EXPECT_NEAR(noisy.interval->upper, 3.17, 0.005);
}

TEST(EstimateRatio, LongInputsAtTheGatesOwnAlpha) {
  // half-width 2.920·s/sqrt(3): 0.01197 and 0.2384.
  const auto quiet = ThreeRoundRatio(2.23, 0.0071, kNoBootNoise);
  EXPECT_NEAR(quiet.interval->lower, 2.2035, 0.0002);
  EXPECT_NEAR(quiet.interval->upper, 2.2569, 0.0002);
  const auto noisy = ThreeRoundRatio(2.23, 0.10 * std::numbers::sqrt2, kNoBootNoise);
  EXPECT_NEAR(noisy.interval->lower, 1.757, 0.001);
  EXPECT_NEAR(noisy.interval->upper, 2.830, 0.001);
}

TEST(EstimateRatio, HalfWidthsOfTheTable) {
  const struct {
    int n;
    double half_width;
  } rows[] = {{3, 1.69}, {5, 0.95}, {7, 0.73}, {10, 0.58}};
  for (const auto& row : rows) {
    // Symmetric log ratios, then scaled by their own sd.
    std::vector<double> values;
    for (int i = 0; i < row.n; ++i) values.push_back(std::exp(0.01 * (i - (row.n - 1) / 2.0)));
    const auto estimate =
        EstimateRatio({values}, ConstantRounds(static_cast<std::size_t>(row.n)), kNoBootNoise);
    EXPECT_NEAR(*estimate.half_width_log / *estimate.sd_log, row.half_width, 0.005) << row.n;
  }
}

TEST(EstimateRatio, RoundsArePairedByIndex) {
  // The rounds wander together by a factor of four; the ratio does not.
  const auto estimate = EstimateRatio({{110, 220, 440}}, {{100, 200, 400}}, kNoBootNoise);
  EXPECT_NEAR(*estimate.point, 1.1, 1e-12);
  EXPECT_NEAR(estimate.interval->lower, 1.1, 1e-9);
  EXPECT_NEAR(estimate.interval->upper, 1.1, 1e-9);
}

TEST(EstimateRatio, PointIsTheGeometricMeanOfTheRatios) {
  const auto estimate = EstimateRatio({{100, 400}}, {{100, 100}}, kNoBootNoise);
  EXPECT_NEAR(*estimate.point, 2.0, 1e-12);
  EXPECT_NEAR(*estimate.sd_log, std::log(4.0) / std::numbers::sqrt2, 1e-12);
}

TEST(EstimateRatio, RoundsWithoutAPartnerAreCountedAndLeftOut) {
  const auto estimate = EstimateRatio({{110, 110, 990}}, {{100, 100}}, kNoBootNoise);
  EXPECT_EQ(estimate.units, 2u);
  EXPECT_EQ(estimate.unpaired_rounds, 1u);
  EXPECT_NEAR(*estimate.point, 1.1, 1e-12);
}

TEST(EstimateRatio, OneBootAnArmIsWidenedByTheBootNoise) {
  const auto estimate = ThreeRoundRatio(1.0, 0.005, {.alpha = 0.05, .boot_noise = 0.01});
  // sqrt((2.920·0.005/sqrt(3))² + (1.645·sqrt(2)·0.01)²) = sqrt(0.00843² + 0.02326²)
  EXPECT_NEAR(*estimate.half_width_log, 0.02474, 0.00001);
  EXPECT_NEAR(estimate.boot_noise_log, 0.02326, 0.00001);
  EXPECT_NEAR(std::log(estimate.interval->upper), 0.02474, 0.00001);
  EXPECT_TRUE(estimate.boot_noise_assumed);
  EXPECT_TRUE(ThreeRoundRatio(1.0, 0.005, kNoBootNoise).boot_noise_assumed);
}

TEST(EstimateRatio, AFullBracketCountsTheClosingBootByHalf) {
  const ValuesByBoot candidate = {{110, 112, 108}};
  const ValuesByBoot baseline = {{100, 101, 99}, {104, 105, 103}};
  const auto estimate = EstimateRatio(candidate, baseline, {.alpha = 0.05, .boot_noise = 0.01});
  EXPECT_EQ(estimate.method, Method::kPairedRounds);
  EXPECT_EQ(estimate.units, 3u);
  EXPECT_TRUE(estimate.boot_noise_assumed);
  EXPECT_NEAR(estimate.boot_noise_log, 1.6449 * 0.01 * std::sqrt(1.5), 1e-6);
  // Baseline by index: 102, 103, 101.
  EXPECT_NEAR(std::log(*estimate.point),
              (std::log(110.0 / 102) + std::log(112.0 / 103) + std::log(108.0 / 101)) / 3, 1e-12);
  // The closing boot measures the noise of the baseline, for display.
  EXPECT_NEAR(*estimate.baseline.boot_sd_log, std::log(1.04) / std::numbers::sqrt2, 1e-12);
  EXPECT_FALSE(estimate.candidate.boot_sd_log);
}

TEST(EstimateRatio, ABracketWithAShorterClosingBootKeepsAllRounds) {
  const ValuesByBoot candidate = {{110, 110, 110}};
  const ValuesByBoot baseline = {{100, 100, 100}, {100, 100}};
  const auto estimate = EstimateRatio(candidate, baseline, {.alpha = 0.05, .boot_noise = 0.01});
  EXPECT_EQ(estimate.units, 3u);
  EXPECT_EQ(estimate.unpaired_rounds, 0u);
  // Weights of the baseline boots: (1/2 + 1/2 + 1)/3 = 2/3 and 1/3.
  EXPECT_NEAR(estimate.boot_noise_log, 1.6449 * 0.01 * std::sqrt(1.0 + 4.0 / 9 + 1.0 / 9), 1e-6);
  // The mirror: two boots of the candidate.
  const auto mirror = EstimateRatio(baseline, candidate, {.alpha = 0.05, .boot_noise = 0.01});
  EXPECT_NEAR(mirror.boot_noise_log, estimate.boot_noise_log, 1e-15);
  EXPECT_NEAR(*mirror.point * *estimate.point, 1.0, 1e-12);
}

TEST(EstimateRatio, TwoBootsAnArmMakeTheBootMeanTheUnit) {
  // Logs of the boot means: 0, 0.02 and 0, 0.01; rounds inside a boot are wild.
  const double c = 100 * std::exp(0.02);
  const double b = 100 * std::exp(0.01);
  const ValuesByBoot candidate = {{50, 150}, {c - 30, c + 30}};
  const ValuesByBoot baseline = {{60, 140}, {b - 10, b, b + 10}};
  const auto estimate = EstimateRatio(candidate, baseline, {.alpha = 0.05, .boot_noise = 0.5});
  EXPECT_EQ(estimate.method, Method::kBootMeans);
  EXPECT_FALSE(estimate.boot_noise_assumed);
  EXPECT_EQ(estimate.boot_noise_log, 0.0);
  EXPECT_EQ(estimate.units, 2u);
  EXPECT_EQ(estimate.baseline.rounds, 5u);
  EXPECT_NEAR(std::log(*estimate.point), 0.005, 1e-12);
  // Variances of a boot: 2e-4 and 5e-5; of the means 1e-4 and 2.5e-5.
  EXPECT_NEAR(*estimate.sd_log, std::sqrt(2.5e-4), 1e-12);
  const double df = 1.25e-4 * 1.25e-4 / (1e-8 + 6.25e-10);
  EXPECT_NEAR(*estimate.degrees_of_freedom, df, 1e-9);  // 1.47
  // t(0.95, 1.47) is between 2.920 (df 2) and 6.314 (df 1).
  const double t = *estimate.half_width_log / std::sqrt(1.25e-4);
  EXPECT_GT(t, 2.920);
  EXPECT_LT(t, 6.314);
}

TEST(EstimateRatio, WelchIsTheTwoSampleIntervalWhenTheArmsAreAlike) {
  const double step = std::exp(0.01);
  const ValuesByBoot arm = {{100}, {100 * step}, {100 / step}};
  const auto estimate = EstimateRatio(arm, arm, {});
  EXPECT_NEAR(*estimate.degrees_of_freedom, 4.0, 1e-9);
  EXPECT_NEAR(*estimate.half_width_log, 2.1318 * 0.01 * std::sqrt(2.0 / 3.0), 1e-6);
  // Unequal counts are no obstacle.
  EXPECT_EQ(EstimateRatio(arm, {{100}, {101}}, {}).method, Method::kBootMeans);
}

TEST(EstimateRatio, EmptyBootsAreNoBoots) {
  const auto estimate = EstimateRatio({{110, 111}, {}}, {{}, {100, 100}}, {});
  EXPECT_EQ(estimate.method, Method::kPairedRounds);
  EXPECT_EQ(estimate.units, 2u);
  EXPECT_EQ(estimate.candidate.boots, 1u);
}

TEST(EstimateRatio, OneRoundHasAPointAndNoInterval) {
  const auto estimate = EstimateRatio({{110}}, {{100}}, {});
  EXPECT_NEAR(*estimate.point, 1.1, 1e-12);
  EXPECT_FALSE(estimate.interval);
  EXPECT_FALSE(estimate.sd_log);
  EXPECT_EQ(estimate.missing, Missing::kSecondUnit);
}

TEST(EstimateRatio, NoDataIsNoEstimate) {
  for (const auto& [c, b] : std::vector<std::pair<ValuesByBoot, ValuesByBoot>>{
           {{}, {}}, {{{1, 2}}, {}}, {{}, {{1, 2}}}, {{{}}, {{1, 2}}}, {{{1, 2}}, {{}, {}}}}) {
    const auto estimate = EstimateRatio(c, b, {});
    EXPECT_FALSE(estimate.point);
    EXPECT_FALSE(estimate.interval);
    EXPECT_EQ(estimate.method, Method::kNone);
    EXPECT_EQ(estimate.missing, Missing::kValues);
  }
}

TEST(EstimateRatio, OneUnusableValueSpoilsTheEstimate) {
  for (const double bad : {0.0, -1.0, kNan, kInf, -kInf}) {
    for (const auto& estimate :
         {EstimateRatio({{100, bad, 100}}, {{100, 100, 100}}, {}),
          EstimateRatio({{100, 100, 100}}, {{100, 100, bad}}, {}), EstimateLevel({{bad, 100}}, {}),
          EstimateLevel({{100, 100}, {100, bad}}, {})}) {
      EXPECT_FALSE(estimate.point) << bad;
      EXPECT_FALSE(estimate.interval) << bad;
      EXPECT_EQ(estimate.missing, Missing::kUsableValue) << bad;
    }
  }
}

TEST(EstimateRatio, OptionsOutOfRangeAreNoEstimate) {
  for (const EstimateOptions& options :
       {EstimateOptions{0.0, 0.01}, EstimateOptions{0.5, 0.01}, EstimateOptions{kNan, 0.01},
        EstimateOptions{0.05, -0.01}, EstimateOptions{0.05, kNan}, EstimateOptions{0.05, kInf}}) {
    EXPECT_EQ(ThreeRoundRatio(1.0, 0.01, options).missing, Missing::kUsableOptions);
    EXPECT_FALSE(ThreeRoundRatio(1.0, 0.01, options).interval);
    EXPECT_FALSE(EstimateLevel({{1, 2}}, options).interval);
  }
}

TEST(EstimateRatio, ExtremeValuesNeverGiveNan) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  const double huge = std::numeric_limits<double>::max();
  for (const auto& estimate :
       {EstimateRatio({{huge, huge}}, {{tiny, tiny}}, {}),
        EstimateRatio({{huge, tiny}}, {{tiny, huge}}, {}),
        EstimateRatio({{tiny}, {huge}}, {{huge}, {tiny}}, {}), EstimateLevel({{tiny, huge}}, {})}) {
    EXPECT_TRUE(std::isfinite(estimate.point.value_or(1.0)));
    if (estimate.interval) {
      EXPECT_TRUE(std::isfinite(estimate.interval->lower));
      EXPECT_TRUE(std::isfinite(estimate.interval->upper));
    } else {
      EXPECT_EQ(estimate.missing, Missing::kUsableValue);
    }
  }
}

TEST(EstimateRatio, ZeroVarianceLeavesTheBootNoise) {
  const auto paired = EstimateRatio({{110, 110}}, {{100, 100}}, {});
  EXPECT_NEAR(*paired.half_width_log, 1.6449 * std::numbers::sqrt2 * 0.01, 1e-6);
  const auto boots = EstimateRatio({{110}, {110}}, {{100}, {100}}, {});
  ASSERT_TRUE(boots.interval);
  EXPECT_NEAR(boots.interval->lower, 1.1, 1e-12);
  EXPECT_NEAR(boots.interval->upper, 1.1, 1e-12);
  EXPECT_EQ(*boots.degrees_of_freedom, 2.0);
}

TEST(EstimateRatio, SwappingTheArmsInvertsTheInterval) {
  const ValuesByBoot a = {{110, 107, 113}};
  const ValuesByBoot b = {{100, 104, 99}};
  const auto forward = EstimateRatio(a, b, {});
  const auto backward = EstimateRatio(b, a, {});
  EXPECT_NEAR(forward.interval->lower * backward.interval->upper, 1.0, 1e-12);
  EXPECT_NEAR(forward.interval->upper * backward.interval->lower, 1.0, 1e-12);
}

TEST(EstimateRatio, IntervalGrowsWithNoiseBootNoiseAndConfidence) {
  const auto width = [](double sd, double alpha, double boot_noise) {
    return *ThreeRoundRatio(1.0, sd, {alpha, boot_noise}).half_width_log;
  };
  EXPECT_LT(width(0.005, 0.05, 0.01), width(0.006, 0.05, 0.01));
  EXPECT_LT(width(0.005, 0.05, 0.01), width(0.005, 0.025, 0.01));
  EXPECT_LT(width(0.005, 0.05, 0.01), width(0.005, 0.05, 0.02));
}

TEST(EstimateLevel, IsTheTIntervalOfTheLogsWidenedByOneBootsNoise) {
  const auto bare = EstimateLevel(ThreeRounds(9.0, 0.005), kNoBootNoise);
  EXPECT_EQ(bare.method, Method::kRounds);
  EXPECT_NEAR(*bare.point, 900.0, 1e-9);
  EXPECT_NEAR(*bare.half_width_log, 2.920 * 0.005 / std::sqrt(3.0), 1e-5);
  const auto widened = EstimateLevel(ThreeRounds(9.0, 0.005), {.alpha = 0.05, .boot_noise = 0.01});
  EXPECT_NEAR(*widened.half_width_log, std::hypot(0.008429, 0.016449), 1e-5);
  EXPECT_TRUE(widened.boot_noise_assumed);
}

TEST(EstimateLevel, TwoBootsAreMeasuredByTheirMeans) {
  const double step = std::exp(0.02);
  const auto estimate = EstimateLevel({{90, 110}, {100 * step}}, {});
  EXPECT_EQ(estimate.method, Method::kBootMeans);
  EXPECT_FALSE(estimate.boot_noise_assumed);
  EXPECT_NEAR(std::log(*estimate.point / 100), 0.01, 1e-12);
  // t(0.95, 1) = 6.3138, s = 0.02/sqrt(2), half-width = t·s/sqrt(2) = t·0.01.
  EXPECT_NEAR(*estimate.half_width_log, 0.063138, 1e-6);
}

TEST(EstimateLevel, WithoutASecondRoundThereIsNoInterval) {
  EXPECT_EQ(EstimateLevel({{5}}, {}).missing, Missing::kSecondUnit);
  EXPECT_EQ(EstimateLevel({}, {}).missing, Missing::kValues);
  EXPECT_EQ(EstimateLevel({{}}, {}).missing, Missing::kValues);
}

}  // namespace
}  // namespace upgrade_gate::stats
