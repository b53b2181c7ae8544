#include "framework/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace upgrade_gate::base {

std::optional<Quantity> ReadQuantity(std::string_view text) {
  Quantity quantity;
  const auto digits = [&text](std::size_t from) {
    const std::size_t end = text.find_first_not_of("0123456789", from);
    return std::min(end, text.size()) - from;
  };
  std::size_t length = digits(0);
  if (length == 0) return std::nullopt;
  if (length < text.size() && text[length] == '.') {
    const std::size_t fraction = digits(length + 1);
    if (fraction == 0) return std::nullopt;
    length += 1 + fraction;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + length, quantity.number);
  if (error != std::errc() || end != text.data() + length) return std::nullopt;
  quantity.unit = text.substr(length);
  return quantity;
}

std::optional<std::chrono::nanoseconds> DurationOf(const Quantity& quantity) {
  const std::string_view unit = quantity.unit;
  const double nanoseconds = unit == "us"    ? 1e3
                             : unit == "ms"  ? 1e6
                             : unit == "s"   ? 1e9
                             : unit == "min" ? 60e9
                             : unit == "h"   ? 3600e9
                                             : 0;
  constexpr double kYear = 366.0 * 24 * 3600e9;
  if (nanoseconds == 0 || quantity.number * nanoseconds > kYear) return std::nullopt;
  return std::chrono::nanoseconds(std::llround(quantity.number * nanoseconds));
}

std::string ToString(Percent percent) {
  return fmt::format("{}%", percent.value);
}
std::string ToString(TokensPerSecond rate) {
  return fmt::format("{}tok/s", rate.value);
}

}  // namespace upgrade_gate::base
