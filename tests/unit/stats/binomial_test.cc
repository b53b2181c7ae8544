#include "framework/stats/binomial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace upgrade_gate::stats {
namespace {

constexpr FailureCount kBaseline{6, 984};
constexpr FailureCount kCandidate{11, 984};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Summed term by term in logs: P(X <= x) for X ~ Binomial(n, p).
double CdfByHand(std::size_t x, std::size_t n, double p) {
  double sum = 0.0;
  for (std::size_t k = 0; k <= x; ++k) {
    const auto a = static_cast<double>(k);
    const auto b = static_cast<double>(n);
    sum += std::exp(std::lgamma(b + 1) - std::lgamma(a + 1) - std::lgamma(b - a + 1) +
                    a * std::log(p) + (b - a) * std::log1p(-p));
  }
  return sum;
}

TEST(ClopperPearson, WorkedUppers) {
  EXPECT_NEAR(ClopperPearson(kBaseline)->upper, 0.0120, 0.00005);
  EXPECT_NEAR(ClopperPearson(kCandidate)->upper, 0.0184, 0.00005);
}

TEST(ClopperPearson, SolvesTheBinomialEquations) {
  for (const FailureCount& count : {FailureCount{1, 10}, {6, 984}, {11, 984}, {7, 20}, {19, 20}}) {
    const auto bounds = ClopperPearson(count);
    ASSERT_TRUE(bounds);
    EXPECT_NEAR(CdfByHand(count.failures, count.requests, bounds->upper), 0.05, 1e-8);
    EXPECT_NEAR(1 - CdfByHand(count.failures - 1, count.requests, bounds->lower), 0.05, 1e-8);
  }
}

TEST(ClopperPearson, EndsAtZeroAndAll) {
  // (1-u)^n = 0.05: the exact rule of three.
  EXPECT_EQ(ClopperPearson({0, 59})->lower, 0.0);
  EXPECT_NEAR(ClopperPearson({0, 59})->upper, 1 - std::pow(0.05, 1.0 / 59), 1e-12);
  EXPECT_EQ(ClopperPearson({59, 59})->upper, 1.0);
  EXPECT_NEAR(ClopperPearson({59, 59})->lower, std::pow(0.05, 1.0 / 59), 1e-12);
}

TEST(ClopperPearson, NoRequestsOrImpossibleCountsHaveNoBounds) {
  EXPECT_FALSE(ClopperPearson({0, 0}));
  EXPECT_FALSE(ClopperPearson({2, 1}));
  for (const double confidence : {0.5, 1.0, 0.0, kNan}) {
    EXPECT_FALSE(ClopperPearson({1, 10}, confidence));
    EXPECT_FALSE(Wilson({1, 10}, confidence));
  }
}

TEST(ClopperPearson, GrowsWithFailuresAndConfidenceAndNarrowsWithRequests) {
  for (std::size_t x = 0; x < 50; ++x) {
    EXPECT_LT(ClopperPearson({x, 50})->upper, x == 49 ? 1.0 : ClopperPearson({x + 1, 50})->upper);
    EXPECT_LT(ClopperPearson({x, 50})->lower, ClopperPearson({x + 1, 50})->lower);
  }
  EXPECT_LT(ClopperPearson({3, 100}, 0.95)->upper, ClopperPearson({3, 100}, 0.99)->upper);
  EXPECT_LT(ClopperPearson({30, 1000})->upper, ClopperPearson({3, 100})->upper);
}

TEST(DecideBudget, WorkedBudgetsAt984Requests) {
  const auto decide = [](std::size_t failures, double budget) {
    return DecideBudget({failures, 984}, budget);
  };
  EXPECT_EQ(decide(4, 0.01), Outcome::kPass);
  EXPECT_EQ(decide(5, 0.01), Outcome::kInconclusive);
  EXPECT_EQ(decide(15, 0.01), Outcome::kInconclusive);
  EXPECT_EQ(decide(16, 0.01), Outcome::kFail);
  EXPECT_EQ(decide(12, 0.02), Outcome::kPass);
  EXPECT_EQ(decide(13, 0.02), Outcome::kInconclusive);
  EXPECT_EQ(decide(27, 0.02), Outcome::kInconclusive);
  EXPECT_EQ(decide(28, 0.02), Outcome::kFail);
}

TEST(DecideBudget, NothingPassesByAbsence) {
  EXPECT_EQ(DecideBudget({0, 0}, 0.5), Outcome::kInconclusive);
  EXPECT_EQ(DecideBudget({5, 4}, 0.5), Outcome::kInconclusive);
  for (const double budget : {-0.01, 1.0, 2.0, kNan}) {
    EXPECT_EQ(DecideBudget({0, 1000}, budget), Outcome::kInconclusive) << budget;
    EXPECT_EQ(DecideBudget({1000, 1000}, budget), Outcome::kInconclusive) << budget;
  }
}

TEST(DecideBudget, ZeroBudgetFailsOnOneAndNeverPasses) {
  EXPECT_EQ(DecideBudget({0, 1'000'000}, 0.0), Outcome::kInconclusive);
  EXPECT_EQ(DecideBudget({1, 1'000'000}, 0.0), Outcome::kFail);
  EXPECT_EQ(DecideBudget({50, 50}, 0.02), Outcome::kFail);
}

TEST(DecideBudget, AllButFewRequestsCannotProveASmallRate) {
  // 5 % needs 59 clean requests.
  EXPECT_EQ(DecideBudget({0, 58}, 0.05), Outcome::kInconclusive);
  EXPECT_EQ(DecideBudget({0, 59}, 0.05), Outcome::kPass);
}

TEST(CountsForBudget, AgreeWithTheWorkedBudgets) {
  EXPECT_EQ(CountsForBudget(984, 0.01).passes_up_to, 4u);
  EXPECT_EQ(CountsForBudget(984, 0.01).fails_from, 16u);
  EXPECT_EQ(CountsForBudget(984, 0.02).passes_up_to, 12u);
  EXPECT_EQ(CountsForBudget(984, 0.02).fails_from, 28u);
}

TEST(CountsForBudget, SayWhenNothingCanPassOrFail) {
  EXPECT_FALSE(CountsForBudget(58, 0.05).passes_up_to);
  EXPECT_EQ(CountsForBudget(59, 0.05).passes_up_to, 0u);
  EXPECT_FALSE(CountsForBudget(1, 0.5).fails_from);  // one failure of one: lower bound 5 %
  EXPECT_EQ(CountsForBudget(1, 0.04).fails_from, 1u);
  EXPECT_FALSE(CountsForBudget(0, 0.05).passes_up_to);
  EXPECT_FALSE(CountsForBudget(0, 0.05).fails_from);
  EXPECT_FALSE(CountsForBudget(100, 1.0).passes_up_to);
  EXPECT_EQ(CountsForBudget(100, 0.0).fails_from, 1u);
}

TEST(Wilson, IsTheRootOfTheScoreEquation) {
  // |p - u| = z·sqrt(u(1-u)/n) at both ends.
  const auto bounds = Wilson({11, 984}, 0.975);
  ASSERT_TRUE(bounds);
  const double p = 11.0 / 984;
  for (const double end : {bounds->lower, bounds->upper}) {
    EXPECT_NEAR(std::abs(p - end), 1.959964 * std::sqrt(end * (1 - end) / 984), 1e-8);
  }
  EXPECT_LT(bounds->lower, p);
  EXPECT_GT(bounds->upper, p);
  EXPECT_EQ(Wilson({0, 10})->lower, 0.0);
  EXPECT_EQ(Wilson({10, 10})->upper, 1.0);
  EXPECT_FALSE(Wilson({0, 0}));
}

TEST(NewcombeDifference, WorkedDifference) {
  const auto two_sided = NewcombeDifference(kCandidate, kBaseline, 0.975);
  ASSERT_TRUE(two_sided);
  EXPECT_NEAR(two_sided->difference, 0.0051, 0.00005);
  EXPECT_NEAR(two_sided->interval.lower, -0.0036, 0.00005);
  EXPECT_NEAR(two_sided->interval.upper, 0.0144, 0.00005);
  EXPECT_NEAR(NewcombeDifference(kCandidate, kBaseline)->interval.upper, 0.0127, 0.00005);
}

// Newcombe 1998b, table II, method 10.
TEST(NewcombeDifference, PublishedExamples) {
  const struct {
    FailureCount first;
    FailureCount second;
    double lower;
    double upper;
  } rows[] = {
      {{56, 70}, {48, 80}, 0.0524, 0.3339}, {{9, 10}, {3, 10}, 0.1705, 0.8090},
      {{10, 10}, {0, 10}, 0.6075, 1.0000},  {{5, 56}, {0, 29}, -0.0381, 0.1926},
      {{0, 10}, {0, 20}, -0.1611, 0.2775},
  };
  for (const auto& row : rows) {
    const auto difference = NewcombeDifference(row.first, row.second, 0.975);
    ASSERT_TRUE(difference);
    EXPECT_NEAR(difference->interval.lower, row.lower, 0.00005) << row.first.failures;
    EXPECT_NEAR(difference->interval.upper, row.upper, 0.00005) << row.first.failures;
  }
}

TEST(NewcombeDifference, SwappingTheArmsMirrorsIt) {
  const auto forward = NewcombeDifference(kCandidate, kBaseline);
  const auto backward = NewcombeDifference(kBaseline, kCandidate);
  EXPECT_NEAR(forward->interval.lower, -backward->interval.upper, 1e-15);
  EXPECT_NEAR(forward->interval.upper, -backward->interval.lower, 1e-15);
  EXPECT_FALSE(NewcombeDifference({0, 0}, kBaseline));
  EXPECT_FALSE(NewcombeDifference(kCandidate, {0, 0}));
}

TEST(DecideRateDifference, WorkedMargins) {
  EXPECT_EQ(DecideRateDifference(kCandidate, kBaseline, 0.010), Outcome::kInconclusive);
  EXPECT_EQ(DecideRateDifference(kCandidate, kBaseline, 0.015), Outcome::kPass);
  EXPECT_EQ(DecideRateDifference(kCandidate, kBaseline, 0.0126), Outcome::kInconclusive);
  EXPECT_EQ(DecideRateDifference(kCandidate, kBaseline, 0.0128), Outcome::kPass);
}

TEST(DecideRateDifference, FailsWhenTheWholeIntervalIsBeyondTheMargin) {
  EXPECT_EQ(DecideRateDifference({100, 984}, {6, 984}, 0.01), Outcome::kFail);
  EXPECT_EQ(DecideRateDifference({6, 984}, {100, 984}, 0.01), Outcome::kPass);
  EXPECT_EQ(DecideRateDifference({0, 0}, {6, 984}, 0.01), Outcome::kInconclusive);
  EXPECT_EQ(DecideRateDifference({0, 984}, {0, 0}, 0.01), Outcome::kInconclusive);
  for (const double margin : {1.0, -1.0, 5.0, kNan}) {
    EXPECT_EQ(DecideRateDifference({6, 984}, {6, 984}, margin), Outcome::kInconclusive);
  }
}

}  // namespace
}  // namespace upgrade_gate::stats
