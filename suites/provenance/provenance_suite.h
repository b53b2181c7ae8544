// That both arms were sent the same bytes, and that each is what it is said to be.
//
// Link it (upgrade_gate_add(… SUITES provenance)) and name its test in the plan:
//   - native: {name: ProvenanceSuite.EveryCaseHadTheSameInputs}
// To hold the candidate to a digest that your pipeline knows, subclass it:
//   TEST_F(ProvenanceSuite, CandidateIsTheReleasedImage) {
//     EXPECT_THAT(Candidate(), PinnedBy(std::getenv("RELEASED_DIGEST")));
//   }
#pragma once

#include "framework/gtest/upgrade_test.h"

namespace upgrade_gate::suites {

class ProvenanceSuite : public gtest::UpgradeTest {
 protected:
  void ExpectEveryCaseHadTheSameInputs();
};

}  // namespace upgrade_gate::suites
