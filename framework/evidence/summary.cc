#include "framework/evidence/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "framework/base/text.h"
#include "framework/evidence/consistency.h"

namespace upgrade_gate::evidence {
namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kNsPerSecond = 1e9;

// Nearest rank, by integers alone; `sorted` is not empty.
double Percentile(const std::vector<double>& sorted, int percentile) {
  const std::size_t rank = (static_cast<std::size_t>(percentile) * sorted.size() + 99) / 100;
  return sorted[rank - 1];
}

Latency LatencyOf(const std::vector<RequestRecord>& requests, Metric metric) {
  std::vector<double> values;
  for (const RequestRecord& request : requests) {
    if (const auto value = LatencyMs(request, metric)) values.push_back(*value);
  }
  return SummarizeValues(std::move(values));
}

FailureCounts Count(const std::vector<RequestRecord>& requests) {
  FailureCounts counts;
  counts.requests = static_cast<int>(requests.size());
  for (const RequestRecord& request : requests) {
    if (request.failure) ++counts.by_kind[request.failure->kind];
  }
  return counts;
}

void Add(const FailureCounts& more, FailureCounts& to) {
  to.requests += more.requests;
  for (const auto& [kind, count] : more.by_kind) to.by_kind[kind] += count;
}

}  // namespace

Latency SummarizeValues(std::vector<double> values_ms) {
  std::sort(values_ms.begin(), values_ms.end());
  Latency latency;
  latency.count = static_cast<int>(values_ms.size());
  if (values_ms.empty()) return latency;
  for (const int percentile : kPercentiles) {
    latency.percentiles_ms[percentile] = Percentile(values_ms, percentile);
  }
  return latency;
}

RoundSummary SummarizeRound(const RoundRecord& round) {
  RoundSummary summary;
  summary.boot = round.boot;
  summary.round = round.round;
  summary.planned = round.planned;
  summary.client = round.client;
  summary.throttled = round.throttled;
  summary.counts = Count(round.requests);
  summary.stopped = round.stopped;
  summary.duration_s = static_cast<double>(round.duration.count()) / kNsPerSecond;
  base::Sha256 inputs;
  for (const RequestRecord& request : round.requests) {
    if (&request != &round.requests.front()) inputs.Update("\n");
    inputs.Update(request.body_sha256);
    if (request.accepted() && request.usage) {
      summary.output_tokens += request.usage->completion_tokens;
    }
  }
  if (!round.requests.empty()) summary.inputs = inputs.Finish();
  if (summary.duration_s > 0) {
    summary.output_tokens_per_s = static_cast<double>(summary.output_tokens) / summary.duration_s;
  }
  for (const Metric metric : kAllMetrics) {
    summary.latency[metric] = LatencyOf(round.requests, metric);
  }
  return summary;
}

namespace {

std::string PlaceOf(const RoundRecord& round) {
  return base::Visible(fmt::format("case {}, arm {}, boot {}, round {}", round.case_name, round.arm,
                                   round.boot, round.round));
}

// Each round on its own: does it belong to this run?
base::Status CheckBelongs(const Summary& summary, const RoundRecord& round) {
  if (summary.FindCase(round.case_name) == nullptr) {
    return base::EvidenceError("the plan has no such case");
  }
  const BootRecord* boot = summary.FindBoot(round.boot);
  if (boot == nullptr) return base::EvidenceError("there is no record of that boot");
  if (boot->arm != round.arm) {
    return base::EvidenceError("that boot was of arm " + base::Visible(boot->arm));
  }
  if (boot->step != round.step) {
    return base::EvidenceError(
        fmt::format("is of step {}, but that boot was of step {}", round.step, boot->step));
  }
  return CheckIndices(round);
}

}  // namespace

std::string_view Name(Metric metric) {
  switch (metric) {
    case Metric::kTtft:
      return "ttft";
    case Metric::kTpot:
      return "tpot";
    case Metric::kE2e:
      return "e2e";
  }
  UG_CHECK(false && "a metric without a name");
  return "";
}

std::string_view Describe(Metric metric) {
  switch (metric) {
    case Metric::kTtft:
      return "time to the first nonempty text, from when the request should have started";
    case Metric::kTpot:
      return "time per output token after the first: (E2E - time to the first token of any kind) / "
             "(output tokens - 1)";
    case Metric::kE2e:
      return "time to the last output, from when the request should have started";
  }
  UG_CHECK(false && "a metric without a description");
  return "";
}

std::optional<Metric> MetricFrom(std::string_view name) {
  for (const Metric metric : kAllMetrics) {
    if (Name(metric) == name) return metric;
  }
  return std::nullopt;
}

std::optional<double> LatencyMs(const RequestRecord& request, Metric metric) {
  const RequestTimes& times = request.times;
  if (!request.accepted() || !times.scheduled || !times.last_token) return std::nullopt;
  const auto ms = [](base::Nanoseconds span) {
    return static_cast<double>(span.count()) / kNsPerMs;
  };
  switch (metric) {
    case Metric::kTtft:
      if (!times.first_text) return std::nullopt;  // no stream, or nothing but reasoning or calls
      return ms(*times.first_text - *times.scheduled);
    case Metric::kE2e:
      return ms(*times.last_token - *times.scheduled);
    case Metric::kTpot:
      break;
  }
  if (!times.first_token || !request.usage || request.usage->completion_tokens < 2) {
    return std::nullopt;
  }
  // The span between the two outputs: exact, and rounded only once. From the first
  // token of any kind, since usage counts reasoning and tool calls among the n.
  const auto gaps = static_cast<double>(request.usage->completion_tokens - 1);
  return static_cast<double>((*times.last_token - *times.first_token).count()) / (kNsPerMs * gaps);
}

int FailureCounts::failed() const {
  int sum = 0;
  for (const auto& [kind, count] : by_kind) sum += count;
  return sum;
}

const CaseSummary* Summary::FindCase(const std::string& name) const {
  const auto it = std::find_if(cases.begin(), cases.end(),
                               [&](const CaseSummary& each) { return each.name == name; });
  return it == cases.end() ? nullptr : &*it;
}

const BootRecord* Summary::FindBoot(int number) const {
  const auto it = std::find_if(boots.begin(), boots.end(),
                               [&](const BootRecord& boot) { return boot.number == number; });
  return it == boots.end() ? nullptr : &*it;
}

base::Result<Summary> Summarize(const CaptureRecord& capture, const std::vector<BootRecord>& boots,
                                const std::vector<RoundRecord>& rounds,
                                const std::vector<std::string>& case_order) {
  Summary summary;
  summary.capture = capture;
  for (const BootRecord& boot : boots) {
    if (summary.FindBoot(boot.number) != nullptr) {
      return base::EvidenceError(fmt::format("boot {}: is there twice", boot.number));
    }
    summary.boots.push_back(boot);
    summary.arms[boot.arm];
  }
  std::sort(summary.boots.begin(), summary.boots.end(),
            [](const BootRecord& a, const BootRecord& b) { return a.number < b.number; });
  for (const std::string& name : case_order) {
    if (summary.FindCase(name) != nullptr) {
      return base::EvidenceError("case " + base::Visible(name) + ": is there twice in the order");
    }
    summary.cases.push_back({.name = name, .arms = {}});
  }

  std::set<std::tuple<std::string, int, int>> seen;
  for (const RoundRecord& round : rounds) {
    if (auto checked = CheckBelongs(summary, round); !checked) {
      return tl::unexpected(base::At(PlaceOf(round), checked.error()));
    }
    auto& of_case =
        *std::find_if(summary.cases.begin(), summary.cases.end(),
                      [&](const CaseSummary& each) { return each.name == round.case_name; });
    ArmRounds& arm = of_case.arms[round.arm];
    if (round.superseded) {
      ++arm.superseded_rounds;
      continue;
    }
    if (!seen.emplace(round.case_name, round.boot, round.round).second) {
      return base::EvidenceError(PlaceOf(round) + ": is there twice");
    }
    arm.rounds.push_back(SummarizeRound(round));
    Add(arm.rounds.back().counts, arm.counts);
    Add(Count(round.warmup), arm.warmup);
    ArmTotal& total = summary.arms[round.arm];
    Add(arm.rounds.back().counts, total.counts);
    ++total.rounds;
  }
  for (CaseSummary& each : summary.cases) {
    for (auto& [name, arm] : each.arms) {
      std::sort(arm.rounds.begin(), arm.rounds.end(),
                [](const RoundSummary& a, const RoundSummary& b) {
                  return std::pair(a.boot, a.round) < std::pair(b.boot, b.round);
                });
    }
  }
  return summary;
}

}  // namespace upgrade_gate::evidence
