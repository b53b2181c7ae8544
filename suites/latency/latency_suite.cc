#include "suites/latency/latency_suite.h"

namespace upgrade_gate::suites {

using gtest::AtMost;

base::Percent LatencySuite::AllowedIncrease(const plan::Case&) const {
  return base::Percent(5);
}

void LatencySuite::ExpectEveryCaseKeepsItsTtft() {
  for (const plan::Case& of : Plan().workload.cases) {
    EXPECT_THAT(Pair(of.name), gtest::Ttft(OfPercentile(), AtMost(AllowedIncrease(of))));
  }
}

void LatencySuite::ExpectEveryCaseKeepsItsTpot() {
  for (const plan::Case& of : Plan().workload.cases) {
    EXPECT_THAT(Pair(of.name), gtest::Tpot(OfPercentile(), AtMost(AllowedIncrease(of))));
  }
}

TEST_F(LatencySuite, EveryCaseKeepsItsTtft) {
  ExpectEveryCaseKeepsItsTtft();
}
TEST_F(LatencySuite, EveryCaseKeepsItsTpot) {
  ExpectEveryCaseKeepsItsTpot();
}

}  // namespace upgrade_gate::suites
