// Output throughput of every case, candidate against baseline.
//
// Link it (upgrade_gate_add(… SUITES throughput)) and name its test in the plan:
//   - native: {name: ThroughputSuite.EveryCaseKeepsItsThroughput}
// or subclass it for limits of your own:
//   class Ours : public ThroughputSuite {
//     Percent AllowedLoss(const plan::Case& of) const override { return Percent(1); }
//   };
//   TEST_F(Ours, EveryCaseKeepsItsThroughput) { ExpectEveryCaseKeepsItsThroughput(); }
#pragma once

#include "framework/gtest/upgrade_test.h"

namespace upgrade_gate::suites {

class ThroughputSuite : public gtest::UpgradeTest {
 protected:
  // The loss that is proved not to be exceeded.
  virtual base::Percent AllowedLoss(const plan::Case& of) const;
  void ExpectEveryCaseKeepsItsThroughput();
};

}  // namespace upgrade_gate::suites
