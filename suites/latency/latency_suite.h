// Latency of every case, candidate against baseline, at one percentile.
//
// Link it (upgrade_gate_add(… SUITES latency)) and name its tests in the plan:
//   - native: {name: LatencySuite.EveryCaseKeepsItsTtft}
//   - native: {name: LatencySuite.EveryCaseKeepsItsTpot}
// or subclass it for limits of your own.
#pragma once

#include "framework/gtest/upgrade_test.h"

namespace upgrade_gate::suites {

class LatencySuite : public gtest::UpgradeTest {
 protected:
  virtual gtest::Percentile OfPercentile() const { return gtest::P95; }
  // The increase that is proved not to be exceeded.
  virtual base::Percent AllowedIncrease(const plan::Case& of) const;
  void ExpectEveryCaseKeepsItsTtft();
  void ExpectEveryCaseKeepsItsTpot();
};

}  // namespace upgrade_gate::suites
