#include "framework/cli/evidence_age.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>

#include "framework/base/clock.h"
#include "framework/base/text.h"

namespace upgrade_gate::cli {
namespace {

using base::Result;

Result<std::chrono::seconds> ParseAge(const std::string& text) {
  std::int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  const std::string unit(rest, end);
  const std::int64_t seconds = unit == "s"     ? 1
                               : unit == "min" ? 60
                               : unit == "h"   ? 3600
                               : unit == "d"   ? 86400
                                               : 0;
  constexpr std::int64_t kMost = 100'000;
  if (error != std::errc() || count < 1 || count > kMost || seconds == 0) {
    return base::UsageError("--max-age: \"" + base::Visible(text) +
                            "\" is not an age: write 90min, 36h or 7d");
  }
  return std::chrono::seconds(count * seconds);
}

}  // namespace

base::Status CheckAge(const evidence::CaptureRecord& capture, const std::string& max_age) {
  UG_ASSIGN(const std::chrono::seconds most, ParseAge(max_age));
  base::WallTime sealed;
  if (!base::ParseUtc(capture.sealed_at, sealed)) {
    return base::EvidenceError("capture.json: \"sealed_at\" is not a time");
  }
  const auto age = base::SystemClock().wall() - sealed;
  if (age.count() < 0) {
    return base::EvidenceError("sealed at " + capture.sealed_at +
                               ", which is in the future: one of the two clocks is wrong");
  }
  if (age <= most) return {};
  return base::EvidenceError(
      fmt::format("sealed at {}, {:.1f} h ago: older than {}; capture anew", capture.sealed_at,
                  std::chrono::duration<double, std::ratio<3600>>(age).count(), max_age));
}

}  // namespace upgrade_gate::cli
