// The numbers that gates and reports read, computed once from the records.
//
// Output throughput = tokens of successful requests / the round's whole
// duration. Percentiles (nearest rank) are taken within a round over successful
// requests. Superseded rounds are counted and otherwise left out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/digest.h"
#include "framework/base/result.h"
#include "framework/evidence/failure_kind.h"
#include "framework/evidence/records.h"

namespace upgrade_gate::evidence {

enum class Metric { kTtft, kTpot, kE2e };
inline constexpr Metric kAllMetrics[] = {Metric::kTtft, Metric::kTpot, Metric::kE2e};
// "ttft"
std::string_view Name(Metric metric);
// "time to the first nonempty text": printed beside the number.
std::string_view Describe(Metric metric);
std::optional<Metric> MetricFrom(std::string_view name);

// TTFT = first_text - scheduled; E2E = last_token - scheduled;
// TPOT = (E2E - TTFT) / (n - 1), n = completion tokens by usage, absent for n < 2.
// Milliseconds; absent for a failed request.
std::optional<double> LatencyMs(const RequestRecord& request, Metric metric);

inline constexpr int kPercentiles[] = {50, 90, 95, 99};

struct Latency {
  int count = 0;                    // successful requests that have this latency
  std::map<int, double> percentiles_ms;  // by kPercentiles; empty when count is 0
};

struct FailureCounts {
  int requests = 0;  // the denominator: sent, formal
  std::map<FailureKind, int> by_kind;
  int failed() const;
};

struct RoundSummary {
  int boot = 0;
  int round = 0;
  int planned = 0;
  FailureCounts counts;
  StopReason stopped = StopReason::kNone;
  double duration_s = 0;
  std::int64_t output_tokens = 0;  // of successful requests, by usage
  double output_tokens_per_s = 0;
  std::map<Metric, Latency> latency;
  base::Sha256Hex inputs;  // over the body digests of all sent requests, in order
};

struct ArmRounds {
  std::vector<RoundSummary> rounds;  // by boot, then round
  FailureCounts counts;              // over `rounds`
  FailureCounts warmup;
  int superseded_rounds = 0;
};

struct CaseSummary {
  std::string name;
  std::map<std::string, ArmRounds> arms;  // an arm that was not run has no entry
};

struct ArmTotal {
  FailureCounts counts;
  int rounds = 0;
};

struct Summary {
  CaptureRecord capture;
  std::vector<BootRecord> boots;
  std::vector<CaseSummary> cases;  // in the plan's order
  std::map<std::string, ArmTotal> arms;

  const CaseSummary* FindCase(const std::string& name) const;
  const BootRecord* FindBoot(int number) const;
};

// `case_order`: the plan's case names; a round of another case is an error.
base::Result<Summary> Summarize(const CaptureRecord& capture, const std::vector<BootRecord>& boots,
                                const std::vector<RoundRecord>& rounds,
                                const std::vector<std::string>& case_order);

std::string WriteSummary(const Summary& summary);
base::Result<Summary> ReadSummary(std::string_view json);

}  // namespace upgrade_gate::evidence
