// Time as a seam. Code that waits or stamps takes a Clock&; `main` builds the
// SystemClock, tests build a ManualClock and advance it.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>

namespace upgrade_gate::base {

using Nanoseconds = std::chrono::nanoseconds;

// A point on a monotonic clock; only differences mean anything.
using Instant = std::chrono::time_point<std::chrono::steady_clock, Nanoseconds>;
// A point in civil time, for people and file names only; never for a duration.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
  virtual WallTime wall() const = 0;
  // Blocks until `when`; returns at once if it has passed.
  virtual void SleepUntil(Instant when) = 0;
};

class SystemClock final : public Clock {
 public:
  Instant now() const override;
  WallTime wall() const override;
  void SleepUntil(Instant when) override;
};

// Stands still until a test advances it or code under test sleeps on it.
class ManualClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  WallTime wall() const override {
    return WallTime{} +
           std::chrono::duration_cast<std::chrono::milliseconds>(now_.time_since_epoch());
  }
  void SleepUntil(Instant when) override { now_ = std::max(now_, when); }
  void Advance(Nanoseconds by) { now_ += by; }

 private:
  Instant now_{};
};

// "2026-10-18T09:30:00.125Z"
std::string FormatUtc(WallTime time);
// Reads exactly what FormatUtc writes; false for anything else.
bool ParseUtc(const std::string& text, WallTime& time);

}  // namespace upgrade_gate::base
