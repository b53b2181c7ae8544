// Gates in C++. The plan names them under `gates:`, beside those it writes itself.
#include "framework/gtest/upgrade_test.h"

using namespace upgrade_gate::gtest;

TEST_F(UpgradeTest, LongInputsGain) {
  EXPECT_THAT(Pair("8k-256-c8"), OutputThroughputGain(AtLeast(Percent(50))));
}

TEST_F(UpgradeTest, FewEmptyAnswers) {
  EXPECT_THAT(Candidate(), EmptyOutputs(AtMost(Percent(5))));
}
