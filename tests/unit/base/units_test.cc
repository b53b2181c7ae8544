#include "framework/base/units.h"

#include <gtest/gtest.h>

namespace upgrade_gate::base {
namespace {

TEST(UnitsTest, AreWrittenAsAPlanWritesThem) {
  EXPECT_EQ(ToString(Percent{3}), "3%");
  EXPECT_EQ(ToString(Percent{0.5}), "0.5%");
  EXPECT_EQ(ToString(TokensPerSecond{900}), "900tok/s");
  EXPECT_EQ(ToString(TokensPerSecond{12.25}), "12.25tok/s");
}

TEST(UnitsTest, APercentIsAHundredth) {
  EXPECT_EQ(Percent{3}.fraction(), 0.03);
  EXPECT_LT(Percent{1}, Percent{2});
  EXPECT_EQ(TokensPerSecond{5}, TokensPerSecond{5});
}

}  // namespace
}  // namespace upgrade_gate::base
