#include "suites/provenance/provenance_suite.h"

namespace upgrade_gate::suites {

void ProvenanceSuite::ExpectEveryCaseHadTheSameInputs() {
  for (const std::string& name : CaseNames()) EXPECT_THAT(Pair(name), gtest::SameInputs());
}

TEST_F(ProvenanceSuite, EveryCaseHadTheSameInputs) {
  ExpectEveryCaseHadTheSameInputs();
}

}  // namespace upgrade_gate::suites
