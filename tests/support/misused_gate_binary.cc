// Linked into a gate binary, makes it misbehave as UPGRADE_GATE_TEST_MISUSE says:
// each of these ended with exit code 0 somewhere, or with one that could be taken
// for a verdict.
#include <gtest/gtest.h>
#include <unistd.h>

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
    if (Misuse() == "abort") std::abort();
    // Past every guard in this process: only the missing result tells.
    if (Misuse() == "hard-exit") _exit(0);
    if (Misuse() == "sanitizer") _exit(1);
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
