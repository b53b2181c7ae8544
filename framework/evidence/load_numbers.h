// The numbers of an ad-hoc load test, `upgrade-gate load`: computed once from its
// records, for the page, the JSON and the conditions. Pure.
//
// Each round is summarized as a captured one is; over several rounds every number
// is the median of the rounds' numbers, never a percentile over what was pooled.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/evidence/client_health.h"
#include "framework/evidence/records.h"
#include "framework/evidence/summary.h"

namespace upgrade_gate::evidence {

struct LoadRound {
  RoundRecord record;  // with the client's health
  // For each of record.requests: milliseconds between consecutive events that
  // carried output (load::LoadResult::gaps_ms).
  std::vector<std::vector<float>> gaps_ms;
};

// What a load test reports percentiles of: the latencies of a request, and the
// gaps within its answer.
enum class LoadLatency { kTtft, kTpot, kInterChunk, kE2e };
inline constexpr LoadLatency kAllLoadLatencies[] = {LoadLatency::kTtft, LoadLatency::kTpot,
                                                    LoadLatency::kInterChunk, LoadLatency::kE2e};
// "inter_chunk"
std::string_view Name(LoadLatency latency);
// "time between two consecutive events that carry output, …": beside the number.
std::string_view Describe(LoadLatency latency);

// Values that a percentile stands on: the fewest and the most of any round.
struct ValueCount {
  int fewest = 0;
  int most = 0;
};
// What a percentile of so few values really is: "max of 16" where nearest rank
// picks the largest, "P95 of 64", "P95, or max of 16" where rounds differ in it.
std::string DescribePercentile(int percentile, const ValueCount& values);

struct LoadRoundNumbers {
  RoundSummary summary;
  double requests_per_s = 0;  // successful ones / the round's whole duration
  std::map<LoadLatency, Latency> latency;
  std::vector<ClientFinding> findings;  // empty: the client did not hurt the round
};

struct LoadNumbers {
  std::vector<LoadRoundNumbers> rounds;  // those in which something was sent
  // Requests of all rounds; absent: as many as the time allows.
  std::optional<int> planned;
  FailureCounts counts;   // over all rounds
  FailureCounts warmup;   // counted apart
  double duration_s = 0;  // of all rounds together

  // Medians over the rounds that have the value.
  std::optional<double> output_tokens_per_s;
  std::optional<double> requests_per_s;
  std::map<LoadLatency, std::map<int, double>> latency_ms;  // by kPercentiles
  std::map<LoadLatency, ValueCount> values;

  std::map<FailureKind, std::string> examples;  // what the first failure of a kind showed

  int succeeded() const { return counts.requests - counts.failed(); }
  bool client_valid() const;
};

LoadNumbers SummarizeLoad(const std::vector<LoadRound>& rounds,
                          const std::vector<RequestRecord>& warmup, std::optional<int> planned);

}  // namespace upgrade_gate::evidence
