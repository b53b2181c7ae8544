#include "suites/failures/failures_suite.h"

namespace upgrade_gate::suites {

using gtest::AtMost;

void FailuresSuite::ExpectEmptyOutputsStayInTheirBudget() {
  EXPECT_THAT(Candidate(), gtest::EmptyOutputs(AtMost(EmptyOutputBudget())));
}

void FailuresSuite::ExpectFailuresStayInTheirBudget() {
  EXPECT_THAT(Candidate(), gtest::Failures(AtMost(FailureBudget())));
}

TEST_F(FailuresSuite, EmptyOutputsStayInTheirBudget) {
  ExpectEmptyOutputsStayInTheirBudget();
}
TEST_F(FailuresSuite, FailuresStayInTheirBudget) {
  ExpectFailuresStayInTheirBudget();
}

}  // namespace upgrade_gate::suites
