#include "framework/base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace upgrade_gate::base {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return UsageError(std::to_string(value) + " is odd");
  return value / 2;
}

Result<int> Quarter(int value) {
  UG_ASSIGN(const int half, Half(value));
  return Half(half);
}

Status Even(int value) {
  UG_TRY(Half(value));
  return {};
}

TEST(ResultTest, AnErrorGoesUpUnchanged) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).error().message, "3 is odd");
  EXPECT_EQ(Quarter(5).error().kind, ErrorKind::kUsage);
  EXPECT_TRUE(Even(2));
  EXPECT_EQ(Even(3).error().message, "3 is odd");
}

TEST(ResultTest, ValuesThatOnlyMoveAreMoved) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(3); };
  const auto use = [&]() -> Result<int> {
    UG_ASSIGN(const std::unique_ptr<int> value, make());
    return *value;
  };
  EXPECT_EQ(*use(), 3);
}

TEST(ResultTest, APlaceComesBeforeTheMessage) {
  const Error error = At("gate.yaml:14:9", Error{ErrorKind::kUsage, "unknown key"});
  EXPECT_EQ(error.message, "gate.yaml:14:9: unknown key");
  EXPECT_EQ(error.kind, ErrorKind::kUsage);
}

TEST(ResultTest, EachMakerGivesItsKind) {
  EXPECT_EQ(UsageError("x").value().kind, ErrorKind::kUsage);
  EXPECT_EQ(InfrastructureError("x").value().kind, ErrorKind::kInfrastructure);
  EXPECT_EQ(EvidenceError("x").value().kind, ErrorKind::kEvidence);
  EXPECT_EQ(Fail(ErrorKind::kNothingRan, "x").value().kind, ErrorKind::kNothingRan);
}

TEST(CheckDeathTest, ABrokenInvariantSaysWhichAndAborts) {
  UG_CHECK(1 + 1 == 2);
  EXPECT_DEATH(UG_CHECK(1 + 1 == 3), "result_test.cc:[0-9]+: broken invariant: 1 \\+ 1 == 3");
}

}  // namespace
}  // namespace upgrade_gate::base
