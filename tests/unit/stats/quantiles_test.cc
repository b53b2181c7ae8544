#include "framework/stats/quantiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace upgrade_gate::stats {
namespace {

std::vector<double> OneTo(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(NearestRank, IsTheValueAtTheCeilingOfTheShare) {
  const std::vector<double> values = {15, 20, 35, 40, 50};
  EXPECT_EQ(NearestRank(values, 5), 15);
  EXPECT_EQ(NearestRank(values, 30), 20);
  EXPECT_EQ(NearestRank(values, 40), 20);
  EXPECT_EQ(NearestRank(values, 50), 35);
  EXPECT_EQ(NearestRank(values, 100), 50);
}

TEST(NearestRank, DoesNotNeedSortedValues) {
  EXPECT_EQ(NearestRank(std::vector<double>{50, 15, 40, 20, 35}, 50), 35);
}

TEST(NearestRank, ExactSharesAreNotRoundedUp) {
  for (int n = 1; n <= 50; ++n) {
    EXPECT_EQ(NearestRank(OneTo(20 * n), 95), 19 * n);
    EXPECT_EQ(NearestRank(OneTo(100 * n), 99), 99 * n);
    EXPECT_EQ(NearestRank(OneTo(10 * n), 70), 7 * n);
    EXPECT_EQ(NearestRank(OneTo(1000 * n), 99.9), 999 * n);
  }
}

TEST(NearestRank, P95OfFewerThanTwentyIsTheMaximum) {
  EXPECT_EQ(NearestRank(OneTo(19), 95), 19);
  EXPECT_EQ(NearestRank(OneTo(20), 95), 19);
}

TEST(NearestRank, FailuresAreInfiniteAndStayInTheDenominator) {
  const auto values = OneTo(19);
  EXPECT_EQ(NearestRank(values, 95, 1), 19);            // 19th of 20
  EXPECT_EQ(NearestRank(values, 95, 2), std::nullopt);  // 20th of 21 is a failure
  EXPECT_EQ(NearestRank(values, 50, 1), 10);            // 10th of 20
  EXPECT_EQ(NearestRank(values, 100, 1), std::nullopt);
  EXPECT_EQ(NearestRank({}, 50, 3), std::nullopt);
}

TEST(NearestRank, HasNoValueForNothingOrNonsense) {
  EXPECT_EQ(NearestRank({}, 50), std::nullopt);
  for (const double percent : {0.0, -1.0, 100.5, kNan, kInf}) {
    EXPECT_EQ(NearestRank(OneTo(3), percent), std::nullopt) << percent;
  }
  EXPECT_EQ(NearestRank(std::vector<double>{1, kNan, 2}, 50), std::nullopt);
  EXPECT_EQ(NearestRank(std::vector<double>{1, kInf, 2}, 50), std::nullopt);
}

TEST(NearestRank, GrowsWithThePercentage) {
  const std::vector<double> values = {7, 3, 9, 1, 4, 4, 8};
  double last = 0;
  for (double percent = 1; percent <= 100; percent += 1) {
    const auto value = NearestRank(values, percent);
    ASSERT_TRUE(value);
    EXPECT_GE(*value, last);
    last = *value;
  }
  EXPECT_EQ(last, 9);
}

TEST(Median, IsTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(Median(std::vector<double>{3}), 3);
  EXPECT_EQ(Median(std::vector<double>{9, 1, 2}), 2);
  EXPECT_EQ(Median(std::vector<double>{9, 1, 2, 4}), 3);
  EXPECT_EQ(Median({}), std::nullopt);
  EXPECT_EQ(Median(std::vector<double>{1, kNan}), std::nullopt);
}

TEST(ValuesForUpperBound, Is59ForP95And299ForP99) {
  EXPECT_EQ(ValuesForUpperBound(95), 59u);
  EXPECT_EQ(ValuesForUpperBound(99), 299u);
  EXPECT_EQ(ValuesForUpperBound(50, 0.75), 2u);  // 0.5² = 0.25 exactly
  EXPECT_EQ(ValuesForUpperBound(100), std::nullopt);
  EXPECT_EQ(ValuesForUpperBound(0), std::nullopt);
  EXPECT_EQ(ValuesForUpperBound(95, 1.0), std::nullopt);
}

TEST(PercentileUpperBound, StartsAtTheSmallestSetThatHasOne) {
  EXPECT_EQ(PercentileUpperBound(OneTo(58), 95), std::nullopt);
  EXPECT_EQ(PercentileUpperBound(OneTo(59), 95), 59);
  EXPECT_EQ(PercentileUpperBound(OneTo(298), 99), std::nullopt);
  EXPECT_EQ(PercentileUpperBound(OneTo(299), 99), 299);
  EXPECT_EQ(PercentileUpperBound({}, 95), std::nullopt);
}

TEST(PercentileUpperBound, IsAnOrderStatisticFromTheBinomial) {
  // Median of 10: P(B(10, 1/2) <= 7) = 0.945, <= 8 = 0.989, so the 9th of 10.
  EXPECT_EQ(PercentileUpperBound(OneTo(10), 50), 9);
  // P95 of 93: P(B <= 91) = 1 - 0.95^93 - 93·0.05·0.95^92 = 0.9500, the 92nd.
  EXPECT_EQ(PercentileUpperBound(OneTo(92), 95), 92);
  EXPECT_EQ(PercentileUpperBound(OneTo(93), 95), 92);
}

TEST(PercentileUpperBound, FallsOnAFailureWhenTooManyFailed) {
  EXPECT_EQ(PercentileUpperBound(OneTo(58), 95, 1), std::nullopt);
  EXPECT_EQ(PercentileUpperBound(OneTo(9), 50, 1), 9);
  EXPECT_EQ(PercentileUpperBound(OneTo(8), 50, 2), std::nullopt);
}

}  // namespace
}  // namespace upgrade_gate::stats
