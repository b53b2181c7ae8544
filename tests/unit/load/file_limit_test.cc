#include "framework/load/file_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace upgrade_gate::load {
namespace {

using ::testing::HasSubstr;

// The limits of the process before the test, given back after it.
class FileLimitTest : public testing::Test {
 protected:
  FileLimitTest() { getrlimit(RLIMIT_NOFILE, &before_); }
  ~FileLimitTest() override { setrlimit(RLIMIT_NOFILE, &before_); }
  static rlim_t Soft() {
    rlimit now{};
    getrlimit(RLIMIT_NOFILE, &now);
    return now.rlim_cur;
  }
  void SetSoft(rlim_t soft) const {
    const rlimit limit{soft, before_.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  rlimit before_{};
};

TEST_F(FileLimitTest, IsRaisedToWhatIsNeededAndNeverLowered) {
  ASSERT_GE(before_.rlim_max, 1000U);
  SetSoft(300);
  ASSERT_TRUE(RaiseFileLimit(40));
  EXPECT_EQ(Soft(), 300U);
  ASSERT_TRUE(RaiseFileLimit(500));
  EXPECT_EQ(Soft(), 756U);
  ASSERT_TRUE(RaiseFileLimit(1));
  EXPECT_EQ(Soft(), 756U);
}

TEST_F(FileLimitTest, AHardLimitThatIsTooLowIsAnErrorThatSaysWhatToDo) {
  if (before_.rlim_max == RLIM_INFINITY || before_.rlim_max > 2'000'000'000) {
    GTEST_SKIP() << "no hard limit here";
  }
  const auto connections = static_cast<int>(before_.rlim_max);
  const auto raised = RaiseFileLimit(connections);
  ASSERT_FALSE(raised);
  EXPECT_EQ(raised.error().kind, base::ErrorKind::kInfrastructure);
  EXPECT_THAT(raised.error().message, HasSubstr("connections at once need"));
  EXPECT_THAT(raised.error().message, HasSubstr("raise the hard limit (ulimit -Hn "));
  EXPECT_EQ(Soft(), before_.rlim_cur);
}

}  // namespace
}  // namespace upgrade_gate::load
