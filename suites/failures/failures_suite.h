// Budgets of failed requests of the candidate, over all cases.
//
// Link it (upgrade_gate_add(… SUITES failures)) and name its tests in the plan:
//   - native: {name: FailuresSuite.EmptyOutputsStayInTheirBudget}
//   - native: {name: FailuresSuite.FailuresStayInTheirBudget}
// or subclass it for budgets of your own.
#pragma once

#include "framework/gtest/upgrade_test.h"

namespace upgrade_gate::suites {

class FailuresSuite : public gtest::UpgradeTest {
 protected:
  virtual base::Percent EmptyOutputBudget() const { return base::Percent(2); }
  virtual base::Percent FailureBudget() const { return base::Percent(2); }
  void ExpectEmptyOutputsStayInTheirBudget();
  void ExpectFailuresStayInTheirBudget();
};

}  // namespace upgrade_gate::suites
