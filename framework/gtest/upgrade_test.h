// Gates in C++: a fixture that holds the plan and its sealed evidence, and what
// expectations are about.
//
//   TEST_F(UpgradeTest, LongInputsGain) {
//     EXPECT_THAT(Pair("8k-256-c8"), OutputThroughputGain(AtLeast(Percent(50))));
//   }
//
// with `using namespace upgrade_gate::gtest;`, and in the plan:
//
//   gates:
//     - native: {name: UpgradeTest.LongInputsGain}
//
// The verdict of such a gate: fail if an expectation failed; inconclusive if a
// matcher could not tell, if the test was skipped, or if it looked at nothing;
// pass otherwise. Nothing is booted and nothing is measured here. One thread.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/units.h"
#include "framework/evidence/summary.h"
#include "framework/gtest/matchers.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gtest {

class UpgradeTest : public testing::Test {
 protected:
  // Candidate against baseline in one case.
  static ArmPair Pair(std::string case_name) { return {std::move(case_name)}; }
  // One arm over all its cases; `.In("8k-256-c8")` is one case of it.
  static MeasuredArm Arm(std::string name) { return {std::move(name), std::nullopt}; }
  static MeasuredArm Baseline();
  static MeasuredArm Candidate();

  // The case as the plan declares it; a failure of the test, and an empty case,
  // for a name that the plan does not have.
  static const plan::Case& Case(const std::string& name);
  // In the plan's order; of one shape only, if it is given.
  static std::vector<std::string> CaseNames(const std::optional<std::string>& shape = {});

  static const plan::ResolvedPlan& Plan();
  // All numbers of the run, for expectations that no matcher has.
  static const evidence::Summary& Summary();
};

}  // namespace upgrade_gate::gtest
