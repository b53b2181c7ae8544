// Strong units: a number that carries what it counts. Durations are std::chrono.
#pragma once

#include <compare>
#include <string>

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

// "3%", "0.5%": as a plan writes it, shortest form, no locale.
std::string ToString(Percent percent);
// "900tok/s"
std::string ToString(TokensPerSecond rate);

}  // namespace upgrade_gate::base
