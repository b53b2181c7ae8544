#include "framework/base/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace upgrade_gate::base {
namespace {

using testing::ElementsAre;

template <typename Draw>
auto Several(int count, Draw draw) {
  std::vector<decltype(draw())> values;
  for (int i = 0; i < count; ++i) values.push_back(draw());
  return values;
}

// The expected numbers come from an independent implementation of the published
// algorithms (SplitMix64's first output for 0 is 0xe220a8397b1dcdaf). They are
// frozen: the prompts of every release depend on them.
TEST(RandomTest, NumbersAreFrozen) {
  Random zero(0), seven(7), last(std::numeric_limits<std::uint64_t>::max());
  EXPECT_THAT(
      Several(4, [&] { return zero.Next(); }),
      ElementsAre(0x99ec5f36cb75f2b4, 0xbf6e1f784956452a, 0x1a5f849d4933e6e0, 0x6aa594f1262d2d2c));
  EXPECT_THAT(
      Several(4, [&] { return seven.Next(); }),
      ElementsAre(0xb358faf74ef9765a, 0x475c3d964f482cd2, 0xd6f1d349952c7996, 0xfb2938731e807240));
  EXPECT_THAT(
      Several(4, [&] { return last.Next(); }),
      ElementsAre(0x8f5520d52a7ead08, 0xc476a018caa1802d, 0x81de31c0d260469e, 0xbf658d7e065f3c2f));
}

TEST(RandomTest, AStreamOfItsOwnForEachPurposeIsFrozen) {
  Random prompts(7, "prompts");
  EXPECT_THAT(Several(3, [&] { return prompts.Next(); }),
              ElementsAre(0xec7193868a35d24f, 0x67f395797bf24c7c, 0x676cbd3328b11575));
  EXPECT_NE(Random(7, "a").Next(), Random(7, "b").Next());
  EXPECT_NE(Random(7, "a").Next(), Random(8, "a").Next());
  EXPECT_NE(Random(7, "").Next(), Random(7).Next());
}

TEST(RandomTest, BelowIsFrozenAndInRange) {
  Random random(42);
  EXPECT_THAT(Several(10, [&] { return random.Below(10); }),
              ElementsAre(2, 2, 9, 3, 6, 4, 4, 7, 8, 5));
  for (int i = 0; i < 1000; ++i) EXPECT_LT(random.Below(3), 3U);
  EXPECT_EQ(random.Below(1), 0U);
}

// For 3 * 2^62 a quarter of all draws must be thrown away; without that the
// lowest third would come twice as often.
TEST(RandomTest, BelowHasNoModuloBias) {
  constexpr std::uint64_t kBound = 3ULL << 62;
  Random frozen(42);
  EXPECT_THAT(Several(4, [&] { return frozen.Below(kBound); }),
              ElementsAre(6990951692964543102ULL, 12544586762248559009ULL, 3222516053899960481ULL,
                          4460494922783153764ULL));
  Random random(1);
  std::array<int, 3> thirds{};
  for (int i = 0; i < 30'000; ++i) ++thirds[random.Below(kBound) >> 62];
  // 10,000 each, standard deviation 82.
  for (const int count : thirds) EXPECT_NEAR(count, 10'000, 400);
}

TEST(RandomTest, UnitIsFrozenAndBelowOne) {
  Random random(42);
  EXPECT_EQ(random.Unit(), 0x1.5780b2e0c2ec0p-4);
  EXPECT_EQ(random.Unit(), 0x1.84136619b444ep-2);
  EXPECT_EQ(random.Unit(), 0x1.5c2ea66473c93p-1);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double value = random.Unit();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.015);  // five standard deviations
}

TEST(RandomTest, NormalIsFrozenAndHasMeanZeroAndVarianceOne) {
  Random random(42);
  // log and sqrt of another C library may differ in the last bit.
  EXPECT_DOUBLE_EQ(random.Normal(), -0.7262191382447857);
  EXPECT_DOUBLE_EQ(random.Normal(), 0.2216227015035933);
  EXPECT_DOUBLE_EQ(random.Normal(), 0.46417731016247366);
  double sum = 0, squares = 0;
  constexpr int kCount = 20'000;
  for (int i = 0; i < kCount; ++i) {
    const double value = random.Normal();
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.036);      // five standard deviations: 5 / sqrt(n)
  EXPECT_NEAR(squares / kCount, 1, 0.051);  // 5 * sqrt(2 / n)
}

}  // namespace
}  // namespace upgrade_gate::base
