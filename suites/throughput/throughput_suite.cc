#include "suites/throughput/throughput_suite.h"

namespace upgrade_gate::suites {

using gtest::AtMost;
using gtest::OutputThroughputLoss;

base::Percent ThroughputSuite::AllowedLoss(const plan::Case&) const {
  return base::Percent(3);
}

void ThroughputSuite::ExpectEveryCaseKeepsItsThroughput() {
  for (const plan::Case& of : Plan().workload.cases) {
    EXPECT_THAT(Pair(of.name), OutputThroughputLoss(AtMost(AllowedLoss(of))));
  }
}

TEST_F(ThroughputSuite, EveryCaseKeepsItsThroughput) {
  ExpectEveryCaseKeepsItsThroughput();
}

}  // namespace upgrade_gate::suites
