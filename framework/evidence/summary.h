// The numbers that gates and reports read, computed once from the records.
//
// Output throughput = tokens of successful requests / the round's whole
// duration. Percentiles (nearest rank: the value of rank ceil(p/100 * n)) are
// taken within a round over successful requests. Superseded rounds are counted
// and otherwise left out.
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
// TPOT = (last_token - first_token) / (n - 1), n = completion tokens by usage,
// absent for n < 2; it is (E2E - TTFT) / (n - 1) where all output is text.
// Milliseconds; absent for a failed request, and TTFT and TPOT for one body.
std::optional<double> LatencyMs(const RequestRecord& request, Metric metric);

inline constexpr int kPercentiles[] = {50, 90, 95, 99};

struct Latency {
  int count = 0;                         // successful requests that have this latency
  std::map<int, double> percentiles_ms;  // by kPercentiles; empty when count is 0
};
Latency SummarizeValues(std::vector<double> values_ms);

struct FailureCounts {
  int requests = 0;  // the denominator: sent, formal
  std::map<FailureKind, int> by_kind;
  int failed() const;  // over all kinds
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
  // SHA-256 over the body digests of all sent requests, by index, joined by
  // newlines; empty where none was sent, so that nothing is proved equal by it.
  base::Sha256Hex inputs;
  std::optional<ClientHealth> client;
  std::string throttled;  // RoundRecord::throttled
};

RoundSummary SummarizeRound(const RoundRecord& round);

struct ArmRounds {
  std::vector<RoundSummary> rounds;  // by boot, then round
  FailureCounts counts;              // over `rounds`
  FailureCounts warmup;
  int superseded_rounds = 0;
};

struct CaseSummary {
  std::string name;
  // An arm that was not run has no entry; one with superseded rounds alone has one.
  std::map<std::string, ArmRounds> arms;
};

// Over all cases; every arm that was booted has one.
struct ArmTotal {
  FailureCounts counts;
  int rounds = 0;
};

struct Summary {
  CaptureRecord capture;
  std::vector<BootRecord> boots;   // by number
  std::vector<CaseSummary> cases;  // all of the plan's, in its order, run or not
  std::map<std::string, ArmTotal> arms;

  const CaseSummary* FindCase(const std::string& name) const;
  const BootRecord* FindBoot(int number) const;
};

// `case_order`: the plan's case names. An error (kEvidence) for a round of another
// case, of a boot that is not there or is of another arm, for a round that is
// there twice and for request indices that are not unique and ascending.
base::Result<Summary> Summarize(const CaptureRecord& capture, const std::vector<BootRecord>& boots,
                                const std::vector<RoundRecord>& rounds,
                                const std::vector<std::string>& case_order);

// JSON (schema 1); equal summaries give equal bytes. The names are those of
// `judge --format json`: {"ttft_ms":{"count":16,"p50":…,"p90":…,"p95":…,"p99":…}}.
std::string WriteSummary(const Summary& summary);
// What is read writes the same bytes again. An error (kEvidence) says where:
// `cases[0]: case 8k-256-c8, arm baseline: rounds[1]: "requests" is missing`.
base::Result<Summary> ReadSummary(std::string_view json);

}  // namespace upgrade_gate::evidence
