#include "framework/gates/wording.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/base/text.h"

namespace upgrade_gate::gates {

std::string Value(double value) {
  const double size = std::abs(value);
  if (size >= 10.0 || size == 0.0) return fmt::format("{:.1f}", value);
  if (size >= 1.0) return fmt::format("{:.2f}", value);
  if (size >= 0.1) return fmt::format("{:.3f}", value);
  return fmt::format("{:.3g}", value);
}

std::string Number(double value) {
  return fmt::format("{}", value);
}

std::string Ratio(double value) {
  const double from_one = std::abs(value - 1.0);
  return from_one > 0.0 && from_one < 0.002 ? fmt::format("{:.4f}", value)
                                            : fmt::format("{:.3f}", value);
}

std::string Share(double fraction) {
  return fmt::format("{:.2f} %", 100.0 * fraction);
}
std::string PercentText(double percent) {
  return fmt::format("{} %", percent);
}
std::string SignedPercent(double ratio) {
  return fmt::format("{:+.1f}", 100.0 * (ratio - 1.0));
}
std::string Change(double ratio) {
  return SignedPercent(ratio) + " %";
}
std::string SignedPercentText(double percent) {
  return fmt::format("{:+} %", percent);
}

std::string Count(std::size_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}
std::string Count(int n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string ShortDigest(std::string_view digest) {
  return digest.empty() ? "(none)" : base::Visible(digest.substr(0, 12));
}

std::string Shown(std::string_view text) {
  return base::Shorten(base::Visible(text), 200);
}

}  // namespace upgrade_gate::gates
