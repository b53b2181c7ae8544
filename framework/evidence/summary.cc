#include "framework/evidence/summary.h"

namespace upgrade_gate::evidence {

std::string_view Name(Metric metric) {
  switch (metric) {
    case Metric::kTtft:
      return "ttft";
    case Metric::kTpot:
      return "tpot";
    case Metric::kE2e:
      return "e2e";
  }
  UG_CHECK(!"a metric without a name");
  return "";
}

std::string_view Describe(Metric metric) {
  switch (metric) {
    case Metric::kTtft:
      return "time to the first nonempty text, from when the request should have started";
    case Metric::kTpot:
      return "time per output token after the first: (E2E - TTFT) / (output tokens - 1)";
    case Metric::kE2e:
      return "time to the last nonempty text, from when the request should have started";
  }
  UG_CHECK(!"a metric without a description");
  return "";
}

std::optional<Metric> MetricFrom(std::string_view name) {
  for (const Metric metric : kAllMetrics) {
    if (Name(metric) == name) return metric;
  }
  return std::nullopt;
}

}  // namespace upgrade_gate::evidence
