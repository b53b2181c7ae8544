#include "framework/evidence/load_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/base/result.h"
#include "framework/stats/quantiles.h"

namespace upgrade_gate::evidence {
namespace {

Latency InterChunkOf(const LoadRound& round) {
  std::vector<double> values;
  for (std::size_t i = 0; i < round.record.requests.size(); ++i) {
    if (!round.record.requests[i].accepted()) continue;
    values.insert(values.end(), round.gaps_ms[i].begin(), round.gaps_ms[i].end());
  }
  return SummarizeValues(std::move(values));
}

LoadRoundNumbers NumbersOf(const LoadRound& round) {
  UG_CHECK(round.gaps_ms.size() == round.record.requests.size() && round.record.client);
  LoadRoundNumbers numbers;
  numbers.summary = SummarizeRound(round.record);
  const FailureCounts& counts = numbers.summary.counts;
  if (numbers.summary.duration_s > 0) {
    numbers.requests_per_s = (counts.requests - counts.failed()) / numbers.summary.duration_s;
  }
  numbers.latency = {{LoadLatency::kTtft, numbers.summary.latency[Metric::kTtft]},
                     {LoadLatency::kTpot, numbers.summary.latency[Metric::kTpot]},
                     {LoadLatency::kE2e, numbers.summary.latency[Metric::kE2e]},
                     {LoadLatency::kInterChunk, InterChunkOf(round)}};
  const auto& ttft = numbers.latency[LoadLatency::kTtft].percentiles_ms;
  const auto median = ttft.find(50);
  numbers.findings =
      FindClientFaults(*round.record.client,
                       median == ttft.end() ? std::nullopt : std::optional<double>(median->second));
  return numbers;
}

void Count(const std::vector<RequestRecord>& requests, FailureCounts& counts,
           std::map<FailureKind, std::string>* examples) {
  counts.requests += static_cast<int>(requests.size());
  for (const RequestRecord& request : requests) {
    if (!request.failure) continue;
    ++counts.by_kind[request.failure->kind];
    if (examples != nullptr) examples->emplace(request.failure->kind, request.failure->detail);
  }
}

void AddLatency(LoadNumbers& numbers, LoadLatency latency) {
  std::map<int, std::vector<double>> by_percentile;
  ValueCount count;
  for (const LoadRoundNumbers& round : numbers.rounds) {
    const Latency& of = round.latency.at(latency);
    if (of.count == 0) continue;
    count.fewest = count.most == 0 ? of.count : std::min(count.fewest, of.count);
    count.most = std::max(count.most, of.count);
    for (const auto& [percentile, value] : of.percentiles_ms) {
      by_percentile[percentile].push_back(value);
    }
  }
  numbers.values[latency] = count;
  for (const auto& [percentile, values] : by_percentile) {
    if (const auto median = stats::Median(values)) {
      numbers.latency_ms[latency][percentile] = *median;
    }
  }
}

}  // namespace

std::string_view Name(LoadLatency latency) {
  switch (latency) {
    case LoadLatency::kTtft:
      return Name(Metric::kTtft);
    case LoadLatency::kTpot:
      return Name(Metric::kTpot);
    case LoadLatency::kE2e:
      return Name(Metric::kE2e);
    case LoadLatency::kInterChunk:
      break;
  }
  return "inter_chunk";
}

std::string_view Describe(LoadLatency latency) {
  switch (latency) {
    case LoadLatency::kTtft:
      return Describe(Metric::kTtft);
    case LoadLatency::kTpot:
      return Describe(Metric::kTpot);
    case LoadLatency::kE2e:
      return Describe(Metric::kE2e);
    case LoadLatency::kInterChunk:
      break;
  }
  return "time between two consecutive events that carry output, each one or several tokens; 0 "
         "for those that arrive together";
}

std::string DescribePercentile(int percentile, const ValueCount& values) {
  const auto is_max = [&](int count) { return (percentile * count + 99) / 100 == count; };
  const std::string range = values.fewest == values.most
                                ? fmt::format("{}", values.most)
                                : fmt::format("{}–{}", values.fewest, values.most);
  if (is_max(values.most)) return "max of " + range;
  if (!is_max(values.fewest)) return fmt::format("P{} of {}", percentile, range);
  return fmt::format("P{}, or max of {}", percentile, values.fewest);
}

bool LoadNumbers::client_valid() const {
  return std::all_of(rounds.begin(), rounds.end(),
                     [](const LoadRoundNumbers& round) { return round.findings.empty(); });
}

LoadNumbers SummarizeLoad(const std::vector<LoadRound>& rounds,
                          const std::vector<RequestRecord>& warmup, std::optional<int> planned) {
  LoadNumbers numbers;
  numbers.planned = planned;
  std::vector<double> tokens, requests;
  for (const LoadRound& round : rounds) {
    if (round.record.requests.empty()) continue;
    numbers.rounds.push_back(NumbersOf(round));
    const LoadRoundNumbers& of = numbers.rounds.back();
    numbers.duration_s += of.summary.duration_s;
    tokens.push_back(of.summary.output_tokens_per_s);
    requests.push_back(of.requests_per_s);
    Count(round.record.requests, numbers.counts, &numbers.examples);
  }
  Count(warmup, numbers.warmup, nullptr);
  numbers.output_tokens_per_s = stats::Median(tokens);
  numbers.requests_per_s = stats::Median(requests);
  for (const LoadLatency latency : kAllLoadLatencies) AddLatency(numbers, latency);
  return numbers;
}

}  // namespace upgrade_gate::evidence
