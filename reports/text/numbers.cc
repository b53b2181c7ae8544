#include "reports/text/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/base/text.h"

namespace upgrade_gate::text {
namespace {

constexpr const char* kAbsent = "–";
constexpr int kFewestForP95 = 20;

bool Shown(const std::optional<double>& value) {
  return value && std::isfinite(*value);
}

}  // namespace

std::optional<double> Median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

std::string ShowThroughput(std::optional<double> tokens_per_s) {
  if (!Shown(tokens_per_s)) return kAbsent;
  if (*tokens_per_s < 999.995) return fmt::format("{:.2f}", *tokens_per_s);
  if (*tokens_per_s > 1e12) return fmt::format("{:.4g}", *tokens_per_s);
  const auto tenths = static_cast<std::int64_t>(std::llround(*tokens_per_s * 10));
  return fmt::format("{}.{}", base::WithThousands(tenths / 10), tenths % 10);
}

std::string ShowMilliseconds(std::optional<double> ms) {
  if (!Shown(ms)) return kAbsent;
  if (*ms < 99.995) return fmt::format("{:.2f} ms", *ms);
  if (*ms < 999.95) return fmt::format("{:.1f} ms", *ms);
  return fmt::format("{:.3f} s", *ms / 1000);
}

std::string ShowShare(int part, int whole) {
  if (whole <= 0) return kAbsent;
  return fmt::format("{:.2f} %", 100.0 * part / whole);
}

std::string ShowCount(int part, int whole) {
  return fmt::format("{}/{}", part, whole);
}

std::string ShowNumber(double value) {
  return std::isfinite(value) ? fmt::format("{:.4g}", value) : kAbsent;
}

std::string ShowRatio(double estimate, const std::optional<gates::Interval>& interval) {
  if (!std::isfinite(estimate)) return kAbsent;
  std::string out = fmt::format("{:.3f}×", estimate);
  if (!interval || !std::isfinite(interval->lower) || !std::isfinite(interval->upper)) return out;
  const int decimals = interval->lower >= 2 ? 2 : 3;
  return out +
         fmt::format(" [{:.{}f}, {:.{}f}]", interval->lower, decimals, interval->upper, decimals);
}

std::optional<double> ArmNumbers::Percentile(evidence::Metric metric, int percentile) const {
  std::vector<double> values;
  if (source == nullptr) return std::nullopt;
  for (const evidence::RoundSummary& round : source->rounds) {
    const auto latency = round.latency.find(metric);
    if (latency == round.latency.end()) continue;
    const auto value = latency->second.percentiles_ms.find(percentile);
    if (value != latency->second.percentiles_ms.end()) values.push_back(value->second);
  }
  return Median(std::move(values));
}

ArmNumbers NumbersOf(const evidence::CaseSummary* of, const std::string& arm) {
  ArmNumbers numbers;
  if (of == nullptr) return numbers;
  const auto found = of->arms.find(arm);
  if (found == of->arms.end()) return numbers;
  numbers.source = &found->second;
  numbers.rounds = static_cast<int>(found->second.rounds.size());
  numbers.counts = found->second.counts;
  std::vector<double> values;
  for (const evidence::RoundSummary& round : found->second.rounds) {
    values.push_back(round.output_tokens_per_s);
  }
  numbers.tokens_per_s = Median(std::move(values));
  return numbers;
}

std::string DescribeP95(const std::vector<const ArmNumbers*>& arms) {
  int fewest = std::numeric_limits<int>::max();
  int most = 0;
  for (const ArmNumbers* arm : arms) {
    if (arm->source == nullptr) continue;
    for (const evidence::RoundSummary& round : arm->source->rounds) {
      for (const evidence::Metric metric : {evidence::Metric::kTtft, evidence::Metric::kTpot}) {
        const auto latency = round.latency.find(metric);
        if (latency == round.latency.end() || latency->second.count == 0) continue;
        fewest = std::min(fewest, latency->second.count);
        most = std::max(most, latency->second.count);
      }
    }
  }
  if (most == 0) return kAbsent;
  const std::string range =
      fewest == most ? fmt::format("{}", most) : fmt::format("{}–{}", fewest, most);
  if (most < kFewestForP95) return "max of " + range;
  if (fewest >= kFewestForP95) return "P95 of " + range;
  return fmt::format("P95, or max of {}", fewest);
}

}  // namespace upgrade_gate::text
