#include "framework/base/clock.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <ctime>

namespace upgrade_gate::base {

Instant SystemClock::now() const {
  return std::chrono::steady_clock::now();
}

WallTime SystemClock::wall() const {
  return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

void SystemClock::SleepUntil(Instant when) {
  // libstdc++'s steady clock is CLOCK_MONOTONIC.
  const auto since_epoch = when.time_since_epoch();
  if (since_epoch.count() <= 0) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch);
  timespec target{};
  target.tv_sec = static_cast<time_t>(seconds.count());
  target.tv_nsec = static_cast<long>((since_epoch - seconds).count());
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &target, nullptr) == EINTR) {
  }
}

std::string FormatUtc(WallTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto days = std::chrono::floor<std::chrono::days>(seconds);
  const std::chrono::year_month_day date{days};
  const std::chrono::hh_mm_ss clock{seconds - days};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     (time - seconds).count());
}

bool ParseUtc(const std::string& text, WallTime& time) {
  int year = 0, hour = 0, minute = 0, second = 0, milli = 0;
  unsigned month = 0, day = 0;
  if (std::sscanf(text.c_str(), "%4d-%2u-%2uT%2d:%2d:%2d.%3dZ", &year, &month, &day, &hour, &minute,
                  &second, &milli) != 7) {
    return false;
  }
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{month},
                                         std::chrono::day{day}};
  if (!date.ok()) return false;
  const WallTime parsed = std::chrono::sys_days{date} + std::chrono::hours{hour} +
                          std::chrono::minutes{minute} + std::chrono::seconds{second} +
                          std::chrono::milliseconds{milli};
  if (FormatUtc(parsed) != text) return false;
  time = parsed;
  return true;
}

}  // namespace upgrade_gate::base
