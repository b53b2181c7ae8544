#include "framework/load/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "framework/base/digest.h"
#include "framework/load/shards.h"

namespace upgrade_gate::load {
namespace {

using namespace std::chrono_literals;
using plan::Arrivals;
using plan::OpenLoop;
using ::testing::ElementsAre;

using Schedule = std::vector<base::Nanoseconds>;

Schedule Make(const OpenLoop& open, int count, std::uint64_t seed = 1) {
  return MakeSchedule(open, seed, "case c round 1", count);
}
double Seconds(base::Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}
base::Sha256Hex DigestOf(const Schedule& schedule) {
  std::string text;
  for (const auto offset : schedule) text += std::to_string(offset.count()) + "\n";
  return base::Sha256Of(text);
}

TEST(ScheduleTest, ConstantArrivalsAreEvenAndBeginAtOnce) {
  EXPECT_THAT(Make({.rate = {4}}, 5), ElementsAre(0ms, 250ms, 500ms, 750ms, 1000ms));
  EXPECT_THAT(Make({.rate = {4}}, 0), ElementsAre());
}

TEST(ScheduleTest, ConstantArrivalsDoNotDrift) {
  const Schedule schedule = Make({.rate = {0.3}}, 100'001);
  EXPECT_LE(std::abs((schedule.back() - 333'333'333'333'333ns).count()), 100);
}

TEST(ScheduleTest, TheRampGrowsEvenly) {
  // Up to t < 10 s the rate is 8 t / 10, so that 0.4 t² arrivals are expected.
  const Schedule schedule = Make({.rate = {8}, .ramp = 10s}, 100);
  EXPECT_EQ(schedule[0], 0ms);
  EXPECT_EQ(schedule[10], 5s);   // 0.4 * 25
  EXPECT_EQ(schedule[40], 10s);  // the ramp is over
  EXPECT_EQ(schedule[41], 10'125ms);
  EXPECT_EQ(schedule[48], 11s);
}

TEST(ScheduleTest, PoissonGapsHaveTheMomentsOfTheExponential) {
  constexpr int kCount = 200'000;
  const Schedule schedule = Make({.rate = {50}, .arrivals = Arrivals::kPoisson}, kCount);
  ASSERT_TRUE(std::is_sorted(schedule.begin(), schedule.end()));
  double before = 0, sum = 0, squares = 0, cubes = 0;
  int over_mean = 0;
  for (const auto offset : schedule) {
    const double gap = (Seconds(offset) - before) * 50;  // mean 1
    before = Seconds(offset);
    sum += gap, squares += gap * gap, cubes += gap * gap * gap;
    over_mean += gap > 1 ? 1 : 0;
  }
  // Five standard errors each: E X^k = k!, the variance of X^k is (2k)! - (k!)².
  const auto within = [](int k, double variance) {
    return 5 * std::sqrt(variance / kCount) + 1e-6 * k;
  };
  EXPECT_NEAR(sum / kCount, 1, within(1, 1));
  EXPECT_NEAR(squares / kCount, 2, within(2, 20));
  EXPECT_NEAR(cubes / kCount, 6, within(3, 684));
  EXPECT_NEAR(static_cast<double>(over_mean) / kCount, std::exp(-1), within(1, 0.2325));
}

TEST(ScheduleTest, PoissonArrivalsFollowTheRamp) {
  // 0.5 * 100/s * 10 s = 500 are expected in the ramp, a quarter of them in its first half.
  const OpenLoop open{.rate = {100}, .arrivals = Arrivals::kPoisson, .ramp = 10s};
  const Schedule schedule = Make(open, 4000);
  const auto until = [&](base::Nanoseconds time) {
    return static_cast<double>(std::lower_bound(schedule.begin(), schedule.end(), time) -
                               schedule.begin());
  };
  EXPECT_NEAR(until(5s), 125, 5 * std::sqrt(125.0));
  EXPECT_NEAR(until(10s), 500, 5 * std::sqrt(500.0));
  EXPECT_NEAR(until(30s), 2500, 5 * std::sqrt(2500.0));
}

// One seed, one schedule, whatever the compiler, the optimisation and the
// standard library: everything that was measured with it depends on these.
TEST(ScheduleTest, GoldenSchedules) {
  const OpenLoop poisson{.rate = {0.3}, .arrivals = Arrivals::kPoisson};
  EXPECT_THAT(Make(poisson, 4, 7),
              ElementsAre(7'043'890'972ns, 8'137'230'071ns, 13'351'578'894ns, 14'709'135'349ns));
  EXPECT_EQ(DigestOf(Make(poisson, 10'000, 7)),
            "64abf93cc2c63ceb644a7e21ab848fb0bd29dda88d435dfe8677553b37861729");
  EXPECT_EQ(DigestOf(Make({.rate = {500}, .arrivals = Arrivals::kPoisson, .ramp = 7s}, 10'000)),
            "35d2cd9a5f8b6e9230c6049fb42b9a4ed40aea096a09e7da2f4b742bc364088c");
  EXPECT_EQ(DigestOf(Make({.rate = {0.7}, .ramp = 100s}, 10'000)),
            "985c3b49370bb86a91494c198f5a978c72944bd326844f902ddb6d6dd5d25a01");
}

TEST(ScheduleTest, SeedAndPurposeGiveSchedulesOfTheirOwn) {
  const OpenLoop poisson{.rate = {1}, .arrivals = Arrivals::kPoisson};
  EXPECT_NE(Make(poisson, 10, 1), Make(poisson, 10, 2));
  EXPECT_NE(MakeSchedule(poisson, 1, "case c round 1", 10),
            MakeSchedule(poisson, 1, "case c round 2", 10));
  // A longer one begins with the shorter one.
  Schedule longer = Make(poisson, 20);
  longer.resize(10);
  EXPECT_EQ(longer, Make(poisson, 10));
}

TEST(ShardsTest, SharesDifferByOneAtMostAndAddUp) {
  EXPECT_EQ(ShardsFor(1), 1u);
  EXPECT_EQ(ShardsFor(250), 1u);
  EXPECT_EQ(ShardsFor(251), 2u);
  EXPECT_EQ(ShardsFor(1000), 4u);
  EXPECT_THAT(
      (std::vector{ShareOf(11, 0, 4), ShareOf(11, 1, 4), ShareOf(11, 2, 4), ShareOf(11, 3, 4)}),
      ElementsAre(3, 3, 3, 2));
}

}  // namespace
}  // namespace upgrade_gate::load
