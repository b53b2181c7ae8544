#include "suites/functional/functional_suite.h"

namespace upgrade_gate::suites {

void FunctionalSuite::ExpectEveryBootAnswered() {
  EXPECT_FALSE(Summary().boots.empty()) << "nothing was booted";
  for (const evidence::BootRecord& boot : Summary().boots) {
    EXPECT_GT(boot.ready_after.count(), 0)
        << "boot " << boot.number << " (" << boot.arm << ") never gave a validated answer";
  }
}

void FunctionalSuite::ExpectEveryRoundHasAnswers() {
  int rounds = 0;
  for (const evidence::CaseSummary& of : Summary().cases) {
    for (const auto& [arm, measured] : of.arms) {
      for (const evidence::RoundSummary& round : measured.rounds) {
        ++rounds;
        EXPECT_GT(round.counts.requests - round.counts.failed(), 0)
            << of.name << ", " << arm << ", round " << round.round << ": no request succeeded";
      }
    }
  }
  EXPECT_GT(rounds, 0) << "nothing was measured";
}

TEST_F(FunctionalSuite, EveryBootAnswered) {
  ExpectEveryBootAnswered();
}
TEST_F(FunctionalSuite, EveryRoundHasAnswers) {
  ExpectEveryRoundHasAnswers();
}

}  // namespace upgrade_gate::suites
