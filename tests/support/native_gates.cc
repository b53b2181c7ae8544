// Gates in C++ as users write them, and as they get them wrong. Their evidence
// has 30 of 300 empty outputs of the candidate in the case "short".
#include <cstdlib>
#include <stdexcept>

#include "framework/gtest/upgrade_test.h"

namespace {

using namespace upgrade_gate::gtest;
using testing::AnyOf;
using testing::Not;

TEST_F(UpgradeTest, Within) {
  EXPECT_THAT(Candidate(), EmptyOutputs(AtMost(Percent(50))));
  EXPECT_THAT(Baseline().In("short"), Failures(AtMost(Percent(5))));
}
TEST_F(UpgradeTest, Over) {
  EXPECT_THAT(Candidate(), EmptyOutputs(AtMost(Percent(1))));
}
TEST_F(UpgradeTest, Open) {
  EXPECT_THAT(Candidate(), EmptyOutputs(AtMost(Percent(10))));
}
TEST_F(UpgradeTest, OpenUnderNot) {
  EXPECT_THAT(Candidate(), Not(EmptyOutputs(AtMost(Percent(10)))));
}
TEST_F(UpgradeTest, OpenBesideAPass) {
  EXPECT_THAT(Candidate(), AnyOf(EmptyOutputs(AtMost(Percent(10))), Failures(AtMost(Percent(50)))));
}
TEST_F(UpgradeTest, OpenAndPlainFailure) {
  EXPECT_THAT(Candidate(), EmptyOutputs(AtMost(Percent(10))));
  EXPECT_EQ(Summary().boots.size(), 5U);
}
TEST_F(UpgradeTest, PlainPass) {
  EXPECT_EQ(Summary().boots.size(), 2U);
}
TEST_F(UpgradeTest, Typo) {
  EXPECT_THAT(Pair("shrot"), SameInputs());
}
TEST_F(UpgradeTest, LooksAtNothing) {
  EXPECT_EQ(Plan().arms.size(), 2U);
}
TEST_F(UpgradeTest, Skips) {
  GTEST_SKIP() << "[  SKIPPED ] not today";
}
TEST_F(UpgradeTest, FailsAndSkips) {
  EXPECT_EQ(Summary().boots.size(), 5U);
  GTEST_SKIP() << "too late";
}
TEST_F(UpgradeTest, LossUnderNot) {
  EXPECT_THAT(Candidate(), Not(EmptyOutputs(AtMost(Percent(1)))));
}
TEST_F(UpgradeTest, Exits) {
  EXPECT_THAT(Candidate(), EmptyOutputs(AtMost(Percent(50))));
  std::exit(0);
}
TEST_F(UpgradeTest, QuickExits) {
  std::quick_exit(0);
}
TEST_F(UpgradeTest, LeavesWithoutAWord) {
  std::_Exit(0);
}
TEST_F(UpgradeTest, Aborts) {
  std::abort();
}
TEST_F(UpgradeTest, Throws) {
  throw std::runtime_error("no such thing");
}

// A death test's child ends as it likes.
TEST_F(UpgradeTest, Dies) {
  EXPECT_EXIT(std::exit(0), testing::ExitedWithCode(0), "");
  EXPECT_THAT(Candidate(), EmptyOutputs(AtMost(Percent(50))));
}

class BrokenSetUp : public UpgradeTest {
 protected:
  void SetUp() override { FAIL() << "no ground to stand on"; }
};
TEST_F(BrokenSetUp, Within) {
  EXPECT_THAT(Candidate(), EmptyOutputs(AtMost(Percent(50))));
}

class BrokenSuite : public UpgradeTest {
 protected:
  static void SetUpTestSuite() { FAIL() << "the suite is broken"; }
};
TEST_F(BrokenSuite, Within) {
  EXPECT_THAT(Candidate(), EmptyOutputs(AtMost(Percent(50))));
}

class SkippingSuite : public UpgradeTest {
 protected:
  static void SetUpTestSuite() { GTEST_SKIP() << "the suite is not for today"; }
};
TEST_F(SkippingSuite, Within) {
  EXPECT_THAT(Candidate(), EmptyOutputs(AtMost(Percent(50))));
}

class OfCase : public UpgradeTest, public testing::WithParamInterface<const char*> {};
TEST_P(OfCase, Within) {
  EXPECT_THAT(Candidate().In(GetParam()), EmptyOutputs(AtMost(Percent(50))));
}
INSTANTIATE_TEST_SUITE_P(All, OfCase, testing::Values("short"));

TEST_F(UpgradeTest, DISABLED_Within) {
  EXPECT_THAT(Candidate(), EmptyOutputs(AtMost(Percent(1))));
}
TEST_F(UpgradeTest, DISABLED_AndNamedNowhere) {
  FAIL();
}

}  // namespace
