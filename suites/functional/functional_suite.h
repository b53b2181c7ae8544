// That every arm answered at all: each boot that measured gave a validated answer
// before it was loaded, and in each planned round at least one request succeeded.
//
// Link it (upgrade_gate_add(… SUITES functional)) and name its tests in the plan:
//   - native: {name: FunctionalSuite.EveryBootAnswered}
//   - native: {name: FunctionalSuite.EveryRoundHasAnswers}
#pragma once

#include "framework/gtest/upgrade_test.h"

namespace upgrade_gate::suites {

class FunctionalSuite : public gtest::UpgradeTest {
 protected:
  void ExpectEveryBootAnswered();
  void ExpectEveryRoundHasAnswers();
};

}  // namespace upgrade_gate::suites
