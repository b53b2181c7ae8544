#include "framework/base/exit_code.h"

#include <gtest/gtest.h>

namespace upgrade_gate::base {
namespace {

// Pipelines branch on these numbers.
TEST(ExitCodeTest, NumbersAreFixedAndKeepClearOfOne) {
  EXPECT_EQ(static_cast<int>(ExitCode::kAccept), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::kReject), 10);
  EXPECT_EQ(static_cast<int>(ExitCode::kInconclusive), 11);
  EXPECT_EQ(static_cast<int>(ExitCode::kUsage), 12);
  EXPECT_EQ(static_cast<int>(ExitCode::kInfrastructure), 13);
  EXPECT_EQ(static_cast<int>(ExitCode::kEvidence), 14);
  EXPECT_EQ(static_cast<int>(ExitCode::kNothingRan), 15);
}

TEST(ExitCodeTest, EachKindOfErrorHasItsOwn) {
  EXPECT_EQ(ExitCodeOf(ErrorKind::kUsage), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(ErrorKind::kInfrastructure), ExitCode::kInfrastructure);
  EXPECT_EQ(ExitCodeOf(ErrorKind::kEvidence), ExitCode::kEvidence);
  EXPECT_EQ(ExitCodeOf(ErrorKind::kNothingRan), ExitCode::kNothingRan);
}

}  // namespace
}  // namespace upgrade_gate::base
