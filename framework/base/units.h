// Strong units: a number that carries what it counts. Durations are std::chrono.
#pragma once

#include <chrono>
#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace upgrade_gate::base {

// 3 means 3 %.
struct Percent {
  double value = 0;
  constexpr Percent() = default;
  constexpr explicit Percent(double percent) : value(percent) {}
  constexpr double fraction() const { return value / 100.0; }
  auto operator<=>(const Percent&) const = default;
};

struct TokensPerSecond {
  double value = 0;
  constexpr TokensPerSecond() = default;
  constexpr explicit TokensPerSecond(double rate) : value(rate) {}
  auto operator<=>(const TokensPerSecond&) const = default;
};

struct RequestsPerSecond {
  double value = 0;
  auto operator<=>(const RequestsPerSecond&) const = default;
};

// "0.5tok/s" is 0.5 and "tok/s".
struct Quantity {
  double number = 0;
  std::string_view unit;  // into the text that was read; empty: none
};
// Digits with an optional fraction, then the unit: no sign, no exponent, no white
// space. Absent for anything else.
std::optional<Quantity> ReadQuantity(std::string_view text);
// Of a number of us, ms, s, min or h; absent for another unit and for more than a year.
std::optional<std::chrono::nanoseconds> DurationOf(const Quantity& quantity);

// "3%", "0.5%": as a plan writes it, shortest form, no locale.
std::string ToString(Percent percent);
// "900tok/s"
std::string ToString(TokensPerSecond rate);

}  // namespace upgrade_gate::base
