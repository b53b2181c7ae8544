#include "suites/functional/functional_suite.h"

#include <map>
#include <set>
#include <string>
#include <utility>

namespace upgrade_gate::suites {

void FunctionalSuite::ExpectEveryBootAnswered() {
  std::set<int> measured;
  for (const evidence::CaseSummary& of : Summary().cases) {
    for (const auto& [arm, rounds] : of.arms) {
      for (const evidence::RoundSummary& round : rounds.rounds) measured.insert(round.boot);
    }
  }
  EXPECT_FALSE(measured.empty()) << "nothing was measured";
  for (const int number : measured) {
    const evidence::BootRecord* boot = Summary().FindBoot(number);
    EXPECT_TRUE(boot != nullptr && boot->ready_after.count() > 0)
        << "boot " << number << " never gave a validated answer";
  }
}

void FunctionalSuite::ExpectEveryRoundHasAnswers() {
  EXPECT_FALSE(Plan().order.empty()) << "nothing was planned";
  std::map<std::pair<std::string, std::string>, int> planned;  // rounds, by case and arm
  for (const plan::BootStep& step : Plan().order) {
    for (const std::string& name : step.cases) planned[{name, step.arm}] += step.rounds;
  }
  for (const auto& [of, rounds] : planned) {
    const auto& [name, arm] = of;
    int answered = 0;
    const evidence::CaseSummary* measured = Summary().FindCase(name);
    if (measured != nullptr && measured->arms.contains(arm)) {
      for (const evidence::RoundSummary& round : measured->arms.at(arm).rounds) {
        if (round.counts.requests > round.counts.failed()) ++answered;
      }
    }
    EXPECT_EQ(answered, rounds) << name << ", " << arm << ": rounds in which a request succeeded";
  }
}

TEST_F(FunctionalSuite, EveryBootAnswered) {
  ExpectEveryBootAnswered();
}
TEST_F(FunctionalSuite, EveryRoundHasAnswers) {
  ExpectEveryRoundHasAnswers();
}

}  // namespace upgrade_gate::suites
