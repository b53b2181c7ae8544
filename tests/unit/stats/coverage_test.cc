// How often the verdicts are wrong, by simulation with fixed seeds. The
// tolerances are four standard errors of the simulated share.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "framework/base/random.h"
#include "framework/stats/decide.h"
#include "framework/stats/estimate.h"
#include "framework/stats/planning.h"
#include "tests/unit/stats/samples.h"

namespace upgrade_gate::stats {
namespace {

struct World {
  double ratio = 1.0;
  double round_noise = 0.005;  // an arm
  double candidate_boot_noise = 0.0;
  double baseline_boot_noise = 0.0;
};

ValuesByBoot Draw(base::Random& random, double level, double boot_noise, double round_noise,
                  const std::vector<std::size_t>& rounds_by_boot) {
  ValuesByBoot values;
  for (const std::size_t rounds : rounds_by_boot) {
    const double boot = std::log(level) + boot_noise * random.Normal();
    values.emplace_back();
    for (std::size_t i = 0; i < rounds; ++i) {
      values.back().push_back(std::exp(boot + round_noise * random.Normal()));
    }
  }
  return values;
}

struct Shares {
  double pass = 0.0;
  double fail = 0.0;
  double error(int draws) const { return 4.0 * std::sqrt(0.05 * 0.95 / draws); }
};

Shares Simulate(const World& world, const std::vector<std::size_t>& candidate,
                const std::vector<std::size_t>& baseline, const EstimateOptions& options,
                double limit, int draws) {
  base::Random random(20240607);
  Shares shares;
  for (int i = 0; i < draws; ++i) {
    const auto c =
        Draw(random, 100 * world.ratio, world.candidate_boot_noise, world.round_noise, candidate);
    const auto b = Draw(random, 100, world.baseline_boot_noise, world.round_noise, baseline);
    const auto outcome = Decide(EstimateRatio(c, b, options), Direction::kHigherIsBetter, limit);
    if (outcome == Outcome::kPass) shares.pass += 1.0 / draws;
    if (outcome == Outcome::kFail) shares.fail += 1.0 / draws;
  }
  return shares;
}

constexpr int kDraws = 10'000;

TEST(Coverage, EachSideOfTheRoundIntervalMissesFivePercent) {
  for (const std::size_t n : {3u, 5u, 10u}) {
    const auto shares = Simulate({.ratio = 0.97}, {n}, {n}, kNoBootNoise, 0.97, kDraws);
    EXPECT_NEAR(shares.pass, 0.05, shares.error(kDraws)) << n;
    EXPECT_NEAR(shares.fail, 0.05, shares.error(kDraws)) << n;
  }
}

// A true -3 % against a margin of 3 %, 0.5 % of round noise and 1 % of boot
// noise an arm: unaccounted for, more rounds make it worse.
TEST(Coverage, IgnoredBootNoisePassesABadServer) {
  const World world{.ratio = 0.97, .candidate_boot_noise = 0.01, .baseline_boot_noise = 0.01};
  EXPECT_NEAR(Simulate(world, {3}, {3}, kNoBootNoise, 0.97, kDraws).pass, 0.25, 0.015);
  EXPECT_NEAR(Simulate(world, {10}, {10}, kNoBootNoise, 0.97, kDraws).pass, 0.39, 0.015);
}

TEST(Coverage, TheAssumedBootNoiseKeepsFalsePassesAtAlpha) {
  const World world{.ratio = 0.97, .candidate_boot_noise = 0.01, .baseline_boot_noise = 0.01};
  for (const std::size_t n : {3u, 10u}) {
    const auto shares = Simulate(world, {n}, {n}, {0.05, 0.01}, 0.97, kDraws);
    EXPECT_LT(shares.pass, 0.05 + shares.error(kDraws)) << n;
    EXPECT_GT(shares.pass, 0.03) << n;
  }
}

TEST(Coverage, BracketsKeepAlphaToo) {
  const World world{.ratio = 0.97, .candidate_boot_noise = 0.01, .baseline_boot_noise = 0.01};
  for (const std::size_t closing : {3u, 2u, 1u}) {
    const auto shares = Simulate(world, {3}, {3, closing}, {0.05, 0.01}, 0.97, kDraws);
    EXPECT_LT(shares.pass, 0.05 + shares.error(kDraws)) << closing;
    EXPECT_LT(shares.fail, 0.05 + shares.error(kDraws)) << closing;
    EXPECT_GT(shares.pass, 0.02) << closing;
  }
}

TEST(Coverage, BootMeansKeepAlphaWithMeasuredNoise) {
  const World world{.ratio = 0.97, .candidate_boot_noise = 0.01, .baseline_boot_noise = 0.01};
  for (const std::size_t boots : {2u, 3u, 6u}) {
    const std::vector<std::size_t> arm(boots, 3);
    const auto shares = Simulate(world, arm, arm, {}, 0.97, kDraws);
    EXPECT_LT(shares.pass, 0.05 + shares.error(kDraws)) << boots;
    EXPECT_GT(shares.pass, 0.02) << boots;
  }
}

// Satterthwaite's approximation is a little too narrow for few boots of very
// unlike arms; a pooled interval would miss far more with unequal counts.
TEST(Coverage, BootMeansStandUnlikeArms) {
  const World world{.ratio = 0.97, .candidate_boot_noise = 0.04, .baseline_boot_noise = 0.01};
  const auto two = Simulate(world, {3, 3}, {3, 3}, {}, 0.97, kDraws);
  EXPECT_LT(two.pass, 0.065);
  const auto unequal = Simulate(world, {3, 3, 3}, {3, 3, 3, 3, 3, 3}, {}, 0.97, kDraws);
  EXPECT_LT(unequal.pass, 0.065);
}

TEST(Coverage, PlannedChancesAreTheSimulatedOnes) {
  const World world{.candidate_boot_noise = 0.01, .baseline_boot_noise = 0.01};
  const double round_noise = std::numbers::sqrt2 * 0.005;
  const auto one = Simulate(world, {3}, {3}, {0.05, 0.01}, 0.97, kDraws);
  EXPECT_NEAR(*ChanceUnchangedPasses({1, 3, round_noise, 0.01}, Direction::kHigherIsBetter, 0.03),
              one.pass, 0.015);
  for (const std::size_t boots : {2u, 3u, 5u}) {
    const std::vector<std::size_t> arm(boots, 3);
    const auto many = Simulate(world, arm, arm, {}, 0.97, kDraws);
    EXPECT_NEAR(
        *ChanceUnchangedPasses({boots, 3, round_noise, 0.01}, Direction::kHigherIsBetter, 0.03),
        many.pass, 0.015)
        << boots;
  }
}

// Worked numbers of the two looks: 5 rounds, then 10 if inconclusive, 0.025 each.
TEST(Coverage, TwoLooksAtHalfOfAlpha) {
  const EstimateOptions options{.alpha = 0.025, .boot_noise = 0.0};
  const auto two_looks = [&](double ratio) {
    base::Random random(7);
    Shares shares;
    for (int i = 0; i < kDraws; ++i) {
      auto c = Draw(random, 100 * ratio, 0.0, 0.005, {10});
      auto b = Draw(random, 100, 0.0, 0.005, {10});
      const auto full = EstimateRatio(c, b, options);
      c[0].resize(5);
      b[0].resize(5);
      auto outcome = DecideRelative(EstimateRatio(c, b, options), Direction::kHigherIsBetter, 0.02);
      if (outcome == Outcome::kInconclusive) {
        outcome = DecideRelative(full, Direction::kHigherIsBetter, 0.02);
      }
      if (outcome == Outcome::kPass) shares.pass += 1.0 / kDraws;
      if (outcome == Outcome::kFail) shares.fail += 1.0 / kDraws;
    }
    return shares;
  };
  EXPECT_NEAR(two_looks(0.9886).pass, 0.94, 0.01);
  EXPECT_NEAR(two_looks(0.98).pass, 0.04, 0.01);
  EXPECT_NEAR(two_looks(0.98).fail, 0.04, 0.01);
  EXPECT_NEAR(two_looks(0.97).fail, 0.985, 0.005);
}

}  // namespace
}  // namespace upgrade_gate::stats
