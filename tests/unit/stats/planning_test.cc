#include "framework/stats/planning.h"

#include <gtest/gtest.h>

#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace upgrade_gate::stats {
namespace {

constexpr auto kHigher = Direction::kHigherIsBetter;
constexpr auto kLower = Direction::kLowerIsBetter;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

PlannedComparison OneBoot(std::size_t rounds, double round_noise, double boot_noise = 0.0) {
  return {.boots = 1, .rounds = rounds, .round_noise = round_noise, .boot_noise = boot_noise};
}

TEST(ChanceUnchangedPasses, WorkedChances) {
  const auto three = ChanceUnchangedPasses(OneBoot(3, 0.0071), kHigher, 0.02);
  ASSERT_TRUE(three);
  EXPECT_NEAR(*three, 0.91, 0.005);
  const auto five = ChanceUnchangedPasses(OneBoot(5, 0.0071), kHigher, 0.02);
  EXPECT_NEAR(*ChanceAllPass(std::vector<double>(20, *five)), 0.99, 0.005);
}

// 0.71 % is sqrt(2)·0.5 % rounded; 20 gates make the rounding visible.
TEST(ChanceUnchangedPasses, WorkedChanceOfTwentyGates) {
  const auto exact = ChanceUnchangedPasses(OneBoot(3, std::numbers::sqrt2 * 0.005), kHigher, 0.02);
  EXPECT_NEAR(*ChanceAllPass(std::vector<double>(20, *exact)), 0.16, 0.005);
  const auto rounded = ChanceUnchangedPasses(OneBoot(3, 0.0071), kHigher, 0.02);
  EXPECT_NEAR(*ChanceAllPass(std::vector<double>(20, *rounded)), 0.153, 0.0005);
}

TEST(SmallestDetectableGap, Table) {
  const struct {
    std::size_t n;
    double gap;
  } rows[] = {{3, 2.30}, {5, 1.36}, {7, 1.07}, {10, 0.85}};
  for (const auto& row : rows) {
    const auto gap = SmallestDetectableGap(OneBoot(row.n, 0.01));
    ASSERT_TRUE(gap);
    EXPECT_NEAR(*gap / 0.01, row.gap, 0.005) << row.n;
  }
}

TEST(ChanceOfPass, IsTheNoncentralTWithoutBootNoise) {
  for (const std::size_t n : {2u, 3u, 5u, 10u, 30u}) {
    for (const double distance : {-0.01, 0.0, 0.005, 0.01, 0.03}) {
      const auto df = static_cast<double>(n) - 1.0;
      const double t = quantile(boost::math::students_t(df), 0.95);
      const double delta = distance * std::sqrt(static_cast<double>(n)) / 0.01;
      const double expected = cdf(complement(boost::math::non_central_t(df, delta), t));
      EXPECT_NEAR(*ChanceOfPass(OneBoot(n, 0.01), distance), expected, 1e-6)
          << n << " " << distance;
    }
  }
}

TEST(ChanceOfPass, OnTheLimitItIsAlphaWithoutBootNoiseAndBelowWithIt) {
  EXPECT_NEAR(*ChanceOfPass(OneBoot(3, 0.01), 0.0), 0.05, 1e-6);
  auto strict = OneBoot(3, 0.01);
  strict.alpha = 0.025;
  EXPECT_NEAR(*ChanceOfPass(strict, 0.0), 0.025, 1e-6);
  for (const double b : {0.001, 0.005, 0.01, 0.05}) {
    EXPECT_LE(*ChanceOfPass(OneBoot(3, 0.01, b), 0.0), 0.0501) << b;
    EXPECT_GT(*ChanceOfPass(OneBoot(3, 0.01, b), 0.0), 0.01) << b;
  }
}

TEST(ChanceOfPass, BootNoiseOnlyIsAPlainNormal) {
  // P(D + sqrt(2)·b·Z > 1.645·sqrt(2)·b) with D = 1.645·sqrt(2)·b is a half.
  const double half_width = 1.6448536 * std::numbers::sqrt2 * 0.01;
  EXPECT_NEAR(*ChanceOfPass(OneBoot(3, 0.0, 0.01), half_width), 0.5, 1e-6);
  EXPECT_NEAR(*ChanceOfPass(OneBoot(3, 0.0, 0.01), 0.0), 0.05, 1e-6);
}

TEST(ChanceOfPass, NoNoiseIsCertain) {
  EXPECT_EQ(*ChanceOfPass(OneBoot(3, 0.0), 0.01), 1.0);
  EXPECT_EQ(*ChanceOfPass(OneBoot(3, 0.0), 0.0), 0.0);
  EXPECT_EQ(*ChanceOfPass(OneBoot(3, 0.0), -0.01), 0.0);
}

TEST(ChanceOfPass, GrowsWithRoundsAndDistanceAndFallsWithNoise) {
  const double base = *ChanceOfPass(OneBoot(5, 0.01, 0.005), 0.02);
  EXPECT_GT(*ChanceOfPass(OneBoot(6, 0.01, 0.005), 0.02), base);
  EXPECT_GT(*ChanceOfPass(OneBoot(5, 0.01, 0.005), 0.021), base);
  EXPECT_LT(*ChanceOfPass(OneBoot(5, 0.011, 0.005), 0.02), base);
  EXPECT_LT(*ChanceOfPass(OneBoot(5, 0.01, 0.006), 0.02), base);
}

TEST(ChanceOfPass, OneRoundOfOneBootNeverPasses) {
  EXPECT_EQ(*ChanceOfPass(OneBoot(1, 0.01), 1.0), 0.0);
  EXPECT_FALSE(SmallestDetectableGap(OneBoot(1, 0.01)));
}

TEST(ChanceOfPass, BootsBeatRoundsWhereBootsAreTheNoise) {
  const auto boots = [](std::size_t k) {
    return *ChanceOfPass({.boots = k, .rounds = 3, .round_noise = 0.005, .boot_noise = 0.01}, 0.03);
  };
  EXPECT_GT(boots(3), boots(2));
  EXPECT_GT(boots(8), boots(3));
  EXPECT_GT(boots(8), *ChanceOfPass(OneBoot(1000, 0.005, 0.01), 0.03));
}

TEST(ChanceUnchangedPasses, MirrorsForLatency) {
  // ln(1.02) is a little nearer than -ln(0.98).
  const double higher = *ChanceUnchangedPasses(OneBoot(3, 0.0071), kHigher, 0.02);
  const double lower = *ChanceUnchangedPasses(OneBoot(3, 0.0071), kLower, 0.02);
  EXPECT_LT(lower, higher);
  EXPECT_NEAR(lower, higher, 0.01);
  EXPECT_LT(*ChanceUnchangedPasses(OneBoot(3, 0.0071), kHigher, -0.5), 1e-9);
  EXPECT_FALSE(ChanceUnchangedPasses(OneBoot(3, 0.0071), kHigher, 1.0));
}

TEST(Planning, NonsenseHasNoAnswer) {
  EXPECT_FALSE(ChanceOfPass(OneBoot(0, 0.01), 0.0));
  EXPECT_FALSE(ChanceOfPass({.boots = 0, .rounds = 3, .round_noise = 0.01}, 0.0));
  EXPECT_FALSE(ChanceOfPass(OneBoot(3, -0.01), 0.0));
  EXPECT_FALSE(ChanceOfPass(OneBoot(3, kNan), 0.0));
  EXPECT_FALSE(ChanceOfPass(OneBoot(3, 0.01, -1.0), 0.0));
  EXPECT_FALSE(ChanceOfPass(OneBoot(3, 0.01), kNan));
  EXPECT_FALSE(SmallestDetectableGap(OneBoot(3, 0.01), 1.0));
  EXPECT_FALSE(SmallestDetectableGap(OneBoot(0, 0.01)));
}

TEST(ChanceAllPass, IsTheProductAndNothingForNoGates) {
  EXPECT_NEAR(*ChanceAllPass(std::vector<double>{0.5, 0.5, 0.8}), 0.2, 1e-12);
  EXPECT_FALSE(ChanceAllPass({}));
  EXPECT_FALSE(ChanceAllPass(std::vector<double>{0.5, kNan}));
  EXPECT_FALSE(ChanceAllPass(std::vector<double>{0.5, 1.5}));
}

}  // namespace
}  // namespace upgrade_gate::stats
