#include "framework/base/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace upgrade_gate::base {
namespace {

using std::chrono::milliseconds;

TEST(FormatUtcTest, WritesMillisecondsAndZ) {
  // Seconds since the epoch, computed independently.
  EXPECT_EQ(FormatUtc(WallTime(milliseconds(1'792'315'800'125))), "2026-10-18T09:30:00.125Z");
  EXPECT_EQ(FormatUtc(WallTime(milliseconds(1'709'164'800'000))), "2024-02-29T00:00:00.000Z");
  EXPECT_EQ(FormatUtc(WallTime{}), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(FormatUtc(WallTime(milliseconds(-1))), "1969-12-31T23:59:59.999Z");
}

TEST(ParseUtcTest, ReadsWhatFormatUtcWrites) {
  for (const std::int64_t ms : {0LL, 1LL, 1'792'315'800'125LL, 1'709'164'800'000LL, -1LL}) {
    const WallTime time{milliseconds(ms)};
    WallTime read{milliseconds(42)};
    EXPECT_TRUE(ParseUtc(FormatUtc(time), read)) << ms;
    EXPECT_EQ(read, time);
  }
}

TEST(ParseUtcTest, RefusesEveryOtherSpellingAndLeavesTheResultAlone) {
  for (const char* text :
       {"", "2026-10-18", "2026-10-18T09:30:00Z", "2026-10-18T09:30:00.125",
        "2026-10-18 09:30:00.125Z", "2026-02-29T00:00:00.000Z", "2026-13-01T00:00:00.000Z",
        "2026-10-18T24:00:00.000Z", "2026-10-18T09:60:00.000Z", "2026-10-18T09:30:00.125Z ",
        " 2026-10-18T09:30:00.125Z", "2026-10-18T09:30:00.125ZZ", "2026-1-18T09:30:00.125Z",
        "2026-10-18T09:30:00.12Z", "2026-10-18T09:30:-1.125Z", "2026-10-18T+9:30:00.125Z",
        "99999999999-10-18T09:30:00.125Z"}) {
    WallTime time{milliseconds(42)};
    EXPECT_FALSE(ParseUtc(text, time)) << text;
    EXPECT_EQ(time, WallTime{milliseconds(42)}) << text;
  }
}

TEST(ManualClockTest, StandsStillUntilItIsAdvancedOrSleptOn) {
  ManualClock clock;
  const Instant start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.Advance(milliseconds(5));
  EXPECT_EQ(clock.now() - start, milliseconds(5));
  clock.SleepUntil(start + milliseconds(20));
  EXPECT_EQ(clock.now() - start, milliseconds(20));
  clock.SleepUntil(start);  // has passed: time does not run backwards
  EXPECT_EQ(clock.now() - start, milliseconds(20));
  EXPECT_EQ(FormatUtc(clock.wall()), "1970-01-01T00:00:00.020Z");
}

TEST(SystemClockTest, SleepsUntilTheMomentAndNotBefore) {
  SystemClock clock;
  const Instant until = clock.now() + milliseconds(3);
  clock.SleepUntil(until);
  EXPECT_GE(clock.now(), until);
  clock.SleepUntil(until);
  clock.SleepUntil(Instant{});
}

}  // namespace
}  // namespace upgrade_gate::base
