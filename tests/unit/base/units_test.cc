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

TEST(UnitsTest, AQuantityIsADecimalNumberAndItsUnit) {
  struct Row {
    const char* text;
    double number;
    const char* unit;
  };
  const Row rows[] = {{"800ms", 800, "ms"}, {"1.5s", 1.5, "s"}, {"900tok/s", 900, "tok/s"},
                      {"0", 0, ""},         {"1%", 1, "%"},     {"007", 7, ""}};
  for (const Row& row : rows) {
    const auto quantity = ReadQuantity(row.text);
    ASSERT_TRUE(quantity.has_value()) << row.text;
    EXPECT_EQ(quantity->number, row.number) << row.text;
    EXPECT_EQ(quantity->unit, row.unit) << row.text;
  }
  for (const char* text : {"", "ms", "-1ms", "+1ms", ".5s", "1.s", " 1s"}) {
    EXPECT_FALSE(ReadQuantity(text).has_value()) << text;
  }
  EXPECT_EQ(ReadQuantity("1e3s")->unit, "e3s");  // no exponents
  EXPECT_FALSE(ReadQuantity(std::string(400, '9') + "s").has_value());
}

TEST(UnitsTest, ADurationHasAUnitOfTime) {
  using std::chrono::nanoseconds;
  EXPECT_EQ(DurationOf({1.5, "us"}), nanoseconds(1500));
  EXPECT_EQ(DurationOf({250, "ms"}), std::chrono::milliseconds(250));
  EXPECT_EQ(DurationOf({1.5, "s"}), std::chrono::milliseconds(1500));
  EXPECT_EQ(DurationOf({2, "min"}), std::chrono::minutes(2));
  EXPECT_EQ(DurationOf({2, "h"}), std::chrono::hours(2));
  for (const char* unit : {"", "d", "S", "m", "%"}) {
    EXPECT_FALSE(DurationOf({1, unit}).has_value()) << unit;
  }
  EXPECT_FALSE(DurationOf({8785, "h"}).has_value());
}

}  // namespace
}  // namespace upgrade_gate::base
