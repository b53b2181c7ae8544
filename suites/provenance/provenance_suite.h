// That both arms were sent the same bytes, and that each is what it is said to be.
//
// Link it (upgrade_gate_add(… SUITES provenance)) and name its test in the plan:
//   - native: {name: ProvenanceSuite.EveryCaseHadTheSameInputs}
// A digest that your pipeline knows is one more test:
//   TEST_F(ProvenanceSuite, CandidateIsTheReleasedImage) {
//     const char* digest = std::getenv("RELEASED_DIGEST");
//     EXPECT_THAT(Candidate(), PinnedBy(digest == nullptr ? "" : digest));  // "": inconclusive
//   }
#pragma once

#include "framework/gtest/upgrade_test.h"

namespace upgrade_gate::suites {

class ProvenanceSuite : public gtest::UpgradeTest {
 protected:
  void ExpectEveryCaseHadTheSameInputs();
};

}  // namespace upgrade_gate::suites
