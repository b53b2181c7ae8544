#include "framework/stats/decide.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/stats/samples.h"

namespace upgrade_gate::stats {
namespace {

constexpr auto kHigher = Direction::kHigherIsBetter;
constexpr auto kLower = Direction::kLowerIsBetter;
using Kind = Resolution::Kind;

Estimate WithInterval(double lower, double upper) {
  Estimate estimate;
  estimate.point = std::sqrt(lower * upper);
  estimate.interval = Interval{lower, upper};
  estimate.method = Method::kPairedRounds;
  estimate.missing = Missing::kNothing;
  return estimate;
}

// Worked number: 115.00 -> 113.69.
TEST(DecideRelative, TheMilestoneChange) {
  const auto quiet = ThreeRoundRatio(113.69 / 115.00, 0.005, kNoBootNoise);
  EXPECT_EQ(DecideRelative(quiet, kHigher, 0.01), Outcome::kInconclusive);
  EXPECT_EQ(DecideRelative(quiet, kHigher, 0.02), Outcome::kPass);
  EXPECT_EQ(DecideRelative(quiet, kHigher, 0.03), Outcome::kPass);
  const auto noisy = ThreeRoundRatio(113.69 / 115.00, 0.0071, kNoBootNoise);
  EXPECT_EQ(DecideRelative(noisy, kHigher, 0.01), Outcome::kInconclusive);
  EXPECT_EQ(DecideRelative(noisy, kHigher, 0.02), Outcome::kInconclusive);
  EXPECT_EQ(DecideRelative(noisy, kHigher, 0.03), Outcome::kPass);
}

TEST(DecideRelative, HigherIsBetterComparesWithOneMinusTheMargin) {
  EXPECT_EQ(DecideRelative(WithInterval(0.971, 1.2), kHigher, 0.03), Outcome::kPass);
  EXPECT_EQ(DecideRelative(WithInterval(0.969, 1.2), kHigher, 0.03), Outcome::kInconclusive);
  EXPECT_EQ(DecideRelative(WithInterval(0.9, 0.971), kHigher, 0.03), Outcome::kInconclusive);
  EXPECT_EQ(DecideRelative(WithInterval(0.9, 0.969), kHigher, 0.03), Outcome::kFail);
}

TEST(DecideRelative, LowerIsBetterIsTheMirror) {
  EXPECT_EQ(DecideRelative(WithInterval(0.9, 1.029), kLower, 0.03), Outcome::kPass);
  EXPECT_EQ(DecideRelative(WithInterval(0.9, 1.031), kLower, 0.03), Outcome::kInconclusive);
  EXPECT_EQ(DecideRelative(WithInterval(1.029, 1.2), kLower, 0.03), Outcome::kInconclusive);
  EXPECT_EQ(DecideRelative(WithInterval(1.031, 1.2), kLower, 0.03), Outcome::kFail);
}

TEST(DecideRelative, ADemandedGainIsANegativeMargin) {
  EXPECT_EQ(DecideRelative(WithInterval(1.51, 3.0), kHigher, -0.5), Outcome::kPass);
  EXPECT_EQ(DecideRelative(WithInterval(1.49, 3.0), kHigher, -0.5), Outcome::kInconclusive);
  EXPECT_EQ(DecideRelative(WithInterval(1.1, 1.49), kHigher, -0.5), Outcome::kFail);
  EXPECT_EQ(DecideRelative(WithInterval(0.3, 0.49), kLower, -0.5), Outcome::kPass);
  EXPECT_EQ(DecideRelative(WithInterval(0.51, 0.6), kLower, -0.5), Outcome::kFail);
}

TEST(Decide, AnEndOnTheLimitIsInconclusive) {
  for (const auto direction : {kHigher, kLower}) {
    EXPECT_EQ(Decide(WithInterval(2.0, 3.0), direction, 2.0), Outcome::kInconclusive);
    EXPECT_EQ(Decide(WithInterval(2.0, 3.0), direction, 3.0), Outcome::kInconclusive);
    EXPECT_EQ(Decide(WithInterval(2.0, 2.0), direction, 2.0), Outcome::kInconclusive);
  }
}

TEST(Decide, NothingPassesByAbsence) {
  for (const auto& estimate :
       {Estimate{}, EstimateRatio({}, {}, {}), EstimateRatio({{200}}, {{100}}, {}),
        EstimateRatio({{200, 0}}, {{100, 100}}, {}), EstimateLevel({}, {})}) {
    EXPECT_EQ(Decide(estimate, kHigher, 0.5), Outcome::kInconclusive);
    EXPECT_EQ(Decide(estimate, kLower, 5.0), Outcome::kInconclusive);
    EXPECT_EQ(RoundsToResolve(estimate, 0.5).kind, Kind::kUnknown);
  }
}

TEST(Decide, ALimitThatIsNoLimitIsInconclusive) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const double limit : {0.0, -1.0, nan, inf}) {
    EXPECT_EQ(Decide(WithInterval(1, 2), kHigher, limit), Outcome::kInconclusive);
    EXPECT_EQ(Decide(WithInterval(1, 2), kLower, limit), Outcome::kInconclusive);
    EXPECT_EQ(RoundsToResolve(ThreeRoundRatio(1, 0.01, {}), limit).kind, Kind::kUnknown);
  }
  EXPECT_EQ(RelativeLimit(kHigher, 1.0), std::nullopt);
  EXPECT_EQ(RelativeLimit(kLower, -1.0), std::nullopt);
  EXPECT_EQ(RelativeLimit(kHigher, nan), std::nullopt);
  EXPECT_EQ(DecideRelative(WithInterval(1, 2), kHigher, 1.0), Outcome::kInconclusive);
  EXPECT_EQ(DecideRelative(WithInterval(1, 2), kLower, inf), Outcome::kInconclusive);
}

TEST(Decide, AbsoluteThresholdsUseTheLevel) {
  // 900 within ±0.84 % bare, ±1.85 % with 1 % of boot noise.
  const auto values = ThreeRounds(9.0, 0.005);
  EXPECT_EQ(Decide(EstimateLevel(values, kNoBootNoise), kHigher, 890), Outcome::kPass);
  EXPECT_EQ(Decide(EstimateLevel(values, {}), kHigher, 890), Outcome::kInconclusive);
  EXPECT_EQ(Decide(EstimateLevel(values, {}), kHigher, 880), Outcome::kPass);
  EXPECT_EQ(Decide(EstimateLevel(values, {}), kHigher, 930), Outcome::kFail);
  EXPECT_EQ(Decide(EstimateLevel(values, {}), kLower, 930), Outcome::kPass);
  EXPECT_EQ(Decide(EstimateLevel(values, {}), kLower, 880), Outcome::kFail);
}

TEST(Decide, NeverPassesAndFailsAtOnceAndIsMonotoneInTheMargin) {
  const auto estimate = ThreeRoundRatio(0.98, 0.01, {});
  int last = 2;  // fail 2, inconclusive 1, pass 0
  for (double margin = -0.2; margin < 0.3; margin += 0.001) {
    const auto outcome = DecideRelative(estimate, kHigher, margin);
    const int rank = outcome == Outcome::kFail ? 2 : outcome == Outcome::kInconclusive ? 1 : 0;
    EXPECT_LE(rank, last);
    last = rank;
  }
  EXPECT_EQ(last, 0);
}

TEST(RoundsToResolve, IsTheFirstNWhoseHalfWidthIsBelowTheDistance) {
  // Distance 0.01, s 0.01: half-width/s below 1 first at n = 5 (0.95; n = 4: 1.18).
  const double limit = std::exp(-0.01);
  const auto five = RoundsToResolve(ThreeRoundRatio(1.0, 0.01, kNoBootNoise), limit);
  EXPECT_EQ(five.kind, Kind::kRounds);
  EXPECT_EQ(five.rounds, 5u);
  // Below 0.58 first at n = 10 (0.5797), to 0.75 at n = 7 (0.734; n = 6: 0.823).
  EXPECT_EQ(RoundsToResolve(ThreeRoundRatio(1.0, 0.01 / 0.58, kNoBootNoise), limit).rounds, 10u);
  EXPECT_EQ(RoundsToResolve(ThreeRoundRatio(1.0, 0.01 / 0.75, kNoBootNoise), limit).rounds, 7u);
  // The side of the limit does not matter.
  EXPECT_EQ(RoundsToResolve(ThreeRoundRatio(1.0, 0.01, kNoBootNoise), 1 / limit).rounds, 5u);
}

TEST(RoundsToResolve, TheMilestoneChange) {
  // ln(0.9886/0.98) = 0.00871, s = 0.0071, ratio 1.227: n = 4 has 2.353/2 = 1.177.
  const auto noisy = ThreeRoundRatio(113.69 / 115.00, 0.0071, kNoBootNoise);
  EXPECT_EQ(RoundsToResolve(noisy, 0.98).rounds, 4u);
  EXPECT_EQ(RoundsToResolve(noisy, 0.97).kind, Kind::kDecided);
}

TEST(RoundsToResolve, BootNoiseTakesItsShareOfTheDistance) {
  // Boot noise 0.1 %: 1.645·sqrt(2)·0.001 = 0.002326; rounds must be below
  // sqrt(0.01² - 0.002326²) = 0.009726, so 0.9726·s: still 5 (0.953).
  const double limit = std::exp(-0.01);
  EXPECT_EQ(RoundsToResolve(ThreeRoundRatio(1.0, 0.01, {0.05, 0.001}), limit).rounds, 5u);
  // 0.2 %: sqrt(0.01² - 0.004652²) = 0.008852: n = 6 (0.823).
  EXPECT_EQ(RoundsToResolve(ThreeRoundRatio(1.0, 0.01, {0.05, 0.002}), limit).rounds, 6u);
}

TEST(RoundsToResolve, BootNoiseAloneIsToldApart) {
  // 1 % of boot noise is a half-width of 2.33 % by itself; the distance is 1 %.
  const auto resolution =
      RoundsToResolve(ThreeRoundRatio(1.0, 0.0001, {0.05, 0.01}), std::exp(-0.01));
  EXPECT_EQ(resolution.kind, Kind::kBootNoiseAlone);
  EXPECT_FALSE(resolution.rounds);
  // k boots an arm: t(2k-2)·0.01·sqrt(2/k) < 0.01 first at k = 7 (1.782·0.5345 =
  // 0.953; k = 6: 1.812·0.577 = 1.046).
  EXPECT_EQ(resolution.boots, 7u);
  // With 3 rounds of 1 % each boot adds 0.01²/3 to 2·0.01²: k = 8 (t(14) = 1.761,
  // 1.761·sqrt(2.333/8) = 0.951; k = 7: 1.782·sqrt(2.333/7) = 1.029).
  EXPECT_EQ(RoundsToResolve(ThreeRoundRatio(1.0, 0.01, {0.05, 0.01}), std::exp(-0.01)).boots, 8u);
}

TEST(RoundsToResolve, BootNoiseAloneForOneArm) {
  // t(k-1)·0.01/sqrt(k) < 0.01 first at k = 5 (0.953).
  const auto resolution =
      RoundsToResolve(EstimateLevel(ThreeRounds(1.0, 0.0001), {}), 100 * std::exp(-0.01));
  EXPECT_EQ(resolution.kind, Kind::kBootNoiseAlone);
  EXPECT_EQ(resolution.boots, 5u);
}

TEST(RoundsToResolve, OnTheLimitNothingHelps) {
  const auto resolution = RoundsToResolve(ThreeRoundRatio(1.0, 0.01, kNoBootNoise), 1.0);
  EXPECT_EQ(resolution.kind, Kind::kOnTheLimit);
  EXPECT_FALSE(resolution.rounds);
}

TEST(RoundsToResolve, IsCapped) {
  const auto estimate = ThreeRoundRatio(1.0, 0.01, kNoBootNoise);
  const auto resolution = RoundsToResolve(estimate, std::exp(-0.0001));
  EXPECT_EQ(resolution.kind, Kind::kBeyondCap);
  EXPECT_FALSE(resolution.rounds);
  EXPECT_EQ(RoundsToResolve(estimate, std::exp(-0.01), 4).kind, Kind::kBeyondCap);
  EXPECT_EQ(RoundsToResolve(estimate, std::exp(-0.01), 5).rounds, 5u);
}

TEST(RoundsToResolve, BootMeansCountBoots) {
  // sd 0.01 in each arm, df 2(k-1), distance 0.01: as above, 7 boots.
  const double step = std::exp(0.01 / std::sqrt(2.0));
  const ValuesByBoot arm = {{100 * step}, {100 / step}};
  const auto resolution = RoundsToResolve(EstimateRatio(arm, arm, {}), std::exp(-0.01));
  EXPECT_EQ(resolution.kind, Kind::kBoots);
  EXPECT_EQ(resolution.boots, 7u);
  // One arm: t(k-1)·0.01/sqrt(k): 5 boots.
  const auto level = RoundsToResolve(EstimateLevel(arm, {}), 100 * std::exp(-0.01));
  EXPECT_EQ(level.kind, Kind::kBoots);
  EXPECT_EQ(level.boots, 5u);
}

TEST(RoundsToResolve, ResolvesIndeedWhenTheNoiseStays) {
  // Noise as seen over the n it names: decided; over one round fewer: not.
  const auto with_rounds = [](std::size_t n, double sd) {
    std::vector<double> values;
    double sum = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      const double x = static_cast<double>(i) - (static_cast<double>(n) - 1.0) / 2.0;
      values.push_back(x);
      sum += x * x;
    }
    const double scale = sd / std::sqrt(sum / (static_cast<double>(n) - 1.0));
    for (double& v : values) v = 99.0 * std::exp(v * scale);
    return EstimateRatio({values}, ConstantRounds(n), {0.05, 0.001});
  };
  for (const double sd : {0.008, 0.01, 0.015, 0.03}) {
    const auto resolution = RoundsToResolve(with_rounds(3, sd), 0.98);
    ASSERT_EQ(resolution.kind, Kind::kRounds) << sd;
    EXPECT_EQ(Decide(with_rounds(*resolution.rounds, sd), kHigher, 0.98), Outcome::kPass) << sd;
    EXPECT_EQ(Decide(with_rounds(*resolution.rounds - 1, sd), kHigher, 0.98),
              Outcome::kInconclusive)
        << sd;
  }
}

}  // namespace
}  // namespace upgrade_gate::stats
