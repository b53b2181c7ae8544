// Linked into a gate binary, makes it misbehave as UPGRADE_GATE_TEST_MISUSE says:
// each of these once ended with exit code 0.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace {

std::string Misuse() {
  const char* misuse = std::getenv("UPGRADE_GATE_TEST_MISUSE");
  return misuse == nullptr ? "" : misuse;
}

class Environment : public testing::Environment {
  void SetUp() override {
    if (Misuse() == "exit") std::exit(0);
    if (Misuse() == "quick-exit") std::quick_exit(0);
    if (Misuse() == "skip") GTEST_SKIP() << "not today";
    if (Misuse() == "fail") FAIL() << "the environment is broken";
    if (Misuse() == "soft-fail") ADD_FAILURE() << "the environment is half broken";
  }
};

class Extra : public testing::Test {
  void TestBody() override {}
};

[[maybe_unused]] const bool registered = [] {
  testing::AddGlobalTestEnvironment(new Environment);
  if (Misuse() == "same-suite") {
    testing::RegisterTest("PlanGates", "Passes", nullptr, nullptr, __FILE__, __LINE__,
                          []() -> testing::Test* { return new Extra; });
  }
  return true;
}();

}  // namespace
