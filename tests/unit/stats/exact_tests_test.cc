#include "framework/stats/exact_tests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/math/distributions/hypergeometric.hpp>
#include <cmath>

namespace upgrade_gate::stats {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr FailureCount kBaseline{6, 984};
constexpr FailureCount kCandidate{11, 984};

TEST(Fisher, WorkedPValues) {
  const auto p = Fisher(kCandidate, kBaseline);
  ASSERT_TRUE(p);
  EXPECT_NEAR(p->two_sided, 0.330, 0.0005);
  EXPECT_NEAR(p->candidate_worse, 0.165, 0.0005);
}

TEST(Fisher, LadyTastingTea) {
  // Fisher 1935: 3 of 4 right, 17/70 one-sided, 34/70 two-sided.
  const auto p = Fisher({3, 4}, {1, 4});
  EXPECT_NEAR(p->candidate_worse, 17.0 / 70, 1e-12);
  EXPECT_NEAR(p->two_sided, 34.0 / 70, 1e-12);
}

TEST(Fisher, AgreesWithTheHypergeometricDistribution) {
  for (const auto& [c, b] : std::vector<std::pair<FailureCount, FailureCount>>{
           {{7, 15}, {12, 15}}, {{3, 10}, {0, 10}}, {{43, 53}, {40, 79}}, {{2, 300}, {9, 40}}}) {
    const auto k = static_cast<unsigned>(c.failures + b.failures);
    const boost::math::hypergeometric_distribution<> h(
        k, static_cast<unsigned>(c.requests), static_cast<unsigned>(c.requests + b.requests));
    const double seen = pdf(h, static_cast<double>(c.failures));
    const auto [lowest, highest] = support(h);
    double worse = 0.0;
    double two_sided = 0.0;
    for (unsigned x = lowest; x <= highest; ++x) {
      const double p = pdf(h, x);
      if (x >= c.failures) worse += p;
      if (p <= seen * (1 + 1e-9)) two_sided += p;
    }
    EXPECT_NEAR(Fisher(c, b)->candidate_worse, worse, 1e-12);
    EXPECT_NEAR(Fisher(c, b)->two_sided, two_sided, 1e-12);
  }
}

TEST(Fisher, DegenerateTables) {
  for (const auto& [c, b] : std::vector<std::pair<FailureCount, FailureCount>>{
           {{0, 10}, {0, 20}}, {{10, 10}, {20, 20}}, {{0, 1}, {0, 1}}}) {
    EXPECT_EQ(Fisher(c, b)->candidate_worse, 1.0);
    EXPECT_EQ(Fisher(c, b)->two_sided, 1.0);
    EXPECT_EQ(Barnard(c, b)->candidate_worse, 1.0);
    EXPECT_EQ(Barnard(c, b)->two_sided, 1.0);
  }
  // One table only: 10 of 10 against 0 of 10 is 1/C(20,10), twice that two-sided.
  EXPECT_NEAR(Fisher({10, 10}, {0, 10})->candidate_worse, 1 / 184756.0, 1e-15);
  EXPECT_NEAR(Fisher({10, 10}, {0, 10})->two_sided, 2 / 184756.0, 1e-15);
}

TEST(Fisher, FarTailsAndLargeCountsAreProbabilities) {
  for (const auto& [c, b] :
       std::vector<std::pair<FailureCount, FailureCount>>{{{900, 984}, {3, 984}},
                                                          {{3, 984}, {900, 984}},
                                                          {{500'000, 1'000'000}, {3, 1'000'000}}}) {
    const auto p = Fisher(c, b);
    ASSERT_TRUE(p);
    EXPECT_GE(p->candidate_worse, 0.0);
    EXPECT_LE(p->candidate_worse, 1.0);
    EXPECT_LT(p->two_sided, 1e-10);
  }
}

TEST(ExactTests, NoRequestsOrImpossibleCountsHaveNoPValue) {
  for (const auto& [c, b] : std::vector<std::pair<FailureCount, FailureCount>>{
           {{0, 0}, {0, 10}}, {{0, 10}, {0, 0}}, {{11, 10}, {0, 10}}, {{0, 10}, {11, 10}}}) {
    EXPECT_FALSE(Fisher(c, b));
    EXPECT_FALSE(Barnard(c, b));
  }
  EXPECT_FALSE(Barnard({1, kMaxBarnardRequests + 1}, {1, 10}));
}

// The p value as its definition reads, on a plain grid of rates.
PValues BarnardByDefinition(const FailureCount& candidate, const FailureCount& baseline,
                            const std::vector<double>& rates) {
  const std::size_t n = candidate.requests;
  const std::size_t m = baseline.requests;
  const auto z = [&](std::size_t c, std::size_t b) {
    const auto nn = static_cast<double>(n);
    const auto mm = static_cast<double>(m);
    const double pooled = static_cast<double>(c + b) / (nn + mm);
    if (c + b == 0 || c + b == n + m) return 0.0;
    return (static_cast<double>(c) / nn - static_cast<double>(b) / mm) /
           std::sqrt(pooled * (1 - pooled) * (1 / nn + 1 / mm));
  };
  const auto pmf = [](std::size_t size, double rate) {
    std::vector<double> p;
    const auto s = static_cast<double>(size);
    for (std::size_t k = 0; k <= size; ++k) {
      const auto x = static_cast<double>(k);
      p.push_back(std::exp(std::lgamma(s + 1) - std::lgamma(x + 1) - std::lgamma(s - x + 1) +
                           x * std::log(rate) + (s - x) * std::log1p(-rate)));
    }
    return p;
  };
  const double seen = z(candidate.failures, baseline.failures);
  PValues best{0.0, 0.0};
  for (const double rate : rates) {
    const auto p_c = pmf(n, rate);
    const auto p_b = pmf(m, rate);
    double worse = 0.0;
    double two_sided = 0.0;
    for (std::size_t c = 0; c <= n; ++c) {
      for (std::size_t b = 0; b <= m; ++b) {
        const double statistic = z(c, b);
        if (statistic >= seen - 1e-9) worse += p_c[c] * p_b[b];
        if (std::abs(statistic) >= std::abs(seen) - 1e-9) two_sided += p_c[c] * p_b[b];
      }
    }
    best.candidate_worse = std::max(best.candidate_worse, worse);
    best.two_sided = std::max(best.two_sided, two_sided);
  }
  return best;
}

// Over all rates the maximum is at 0.0019: 0.1243 and 0.2486. A search that
// stops at the hill beside the pooled rate (0.0086) reports 0.119 and 0.237.
TEST(Barnard, SixAgainstElevenIsTheHighestHillNotTheNearest) {
  const auto p = Barnard(kCandidate, kBaseline);
  ASSERT_TRUE(p);
  EXPECT_NEAR(p->candidate_worse, 0.1243, 0.00005);
  EXPECT_NEAR(p->two_sided, 0.2486, 0.00005);
  const auto highest = BarnardByDefinition(kCandidate, kBaseline, {0.0019350});
  EXPECT_NEAR(p->candidate_worse, highest.candidate_worse, 1e-5);
  EXPECT_NEAR(p->two_sided, highest.two_sided, 1e-5);
  const auto nearest = BarnardByDefinition(kCandidate, kBaseline, {17.0 / 1968});
  EXPECT_NEAR(nearest.candidate_worse, 0.119, 0.0005);
  EXPECT_NEAR(nearest.two_sided, 0.237, 0.0005);
}

TEST(Barnard, AgreesWithItsDefinitionOnSmallTables) {
  std::vector<double> rates;
  for (int i = 1; i < 4000; ++i) rates.push_back(i / 4000.0);
  for (const auto& [c, b] : std::vector<std::pair<FailureCount, FailureCount>>{
           {{12, 15}, {7, 15}}, {{7, 15}, {12, 15}}, {{3, 10}, {0, 10}}, {{5, 20}, {0, 13}}}) {
    const auto expected = BarnardByDefinition(c, b, rates);
    EXPECT_NEAR(Barnard(c, b)->candidate_worse, expected.candidate_worse, 1e-5);
    EXPECT_NEAR(Barnard(c, b)->two_sided, expected.two_sided, 1e-5);
  }
}

TEST(Barnard, PublishedExample) {
  // Mehta and Senchaudhuri 2003, table 1: 7 of 15 against 12 of 15, p = 0.0341
  // one-sided, where Fisher's is 0.0640.
  EXPECT_NEAR(Barnard({12, 15}, {7, 15})->candidate_worse, 0.0341, 0.00005);
  EXPECT_NEAR(Fisher({12, 15}, {7, 15})->candidate_worse, 0.0641, 0.00005);
}

TEST(Barnard, MoreFailuresOfTheCandidateAreStrongerEvidence) {
  double last = 1.0;
  for (std::size_t x = 7; x <= 27; x += 4) {
    const double p = Barnard({x, 200}, {6, 200})->candidate_worse;
    EXPECT_LT(p, last);
    last = p;
  }
}

TEST(McNemar, WorkedPValues) {
  EXPECT_NEAR(McNemarCandidateWorse(5, 0), 0.031, 0.0005);   // all 6 among the 11
  EXPECT_NEAR(McNemarCandidateWorse(11, 6), 0.166, 0.0005);  // no overlap
}

TEST(McNemar, SmallCasesByHand) {
  EXPECT_EQ(McNemarCandidateWorse(0, 0), 1.0);
  EXPECT_EQ(McNemarCandidateWorse(0, 5), 1.0);
  EXPECT_NEAR(McNemarCandidateWorse(1, 1), 0.75, 1e-12);
  EXPECT_NEAR(McNemarCandidateWorse(2, 1), 0.5, 1e-12);
}

TEST(HolmAdjusted, StepsDownInTheOrderGiven) {
  EXPECT_THAT(
      HolmAdjusted(std::vector<double>{0.04, 0.01, 0.03}),
      ElementsAre(DoubleNear(0.06, 1e-12), DoubleNear(0.03, 1e-12), DoubleNear(0.06, 1e-12)));
  EXPECT_THAT(HolmAdjusted(std::vector<double>{0.9, 0.8}), ElementsAre(1.0, 1.0));
  EXPECT_THAT(HolmAdjusted({}), IsEmpty());
}

}  // namespace
}  // namespace upgrade_gate::stats
