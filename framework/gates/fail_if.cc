#include "framework/gates/fail_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "framework/base/text.h"
#include "framework/base/units.h"

namespace upgrade_gate::gates {
namespace {

using evidence::LoadNumbers;
using Kind = LoadMetric::Kind;
using Op = FailIf::Op;

constexpr std::array<std::pair<std::string_view, Op>, 4> kOps = {{
    {">=", Op::kAtLeast},  // before those that it begins with
    {"<=", Op::kAtMost},
    {">", Op::kAbove},
    {"<", Op::kBelow},
}};

std::string Quoted(std::string_view text) {
  constexpr std::size_t kMostShown = 60;
  return "\"" + base::Shorten(base::Visible(text), kMostShown) + "\"";
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

std::vector<std::pair<std::string, LoadMetric>> AllMetrics() {
  std::vector<std::pair<std::string, LoadMetric>> all;
  for (const evidence::LoadLatency latency : evidence::kAllLoadLatencies) {
    for (const int percentile : evidence::kPercentiles) {
      all.emplace_back(fmt::format("{}.p{}", evidence::Name(latency), percentile),
                       LoadMetric{Kind::kLatency, latency, percentile, std::nullopt});
    }
  }
  all.emplace_back("output_tokens_per_s", LoadMetric{.kind = Kind::kOutputRate, .failure = {}});
  all.emplace_back("requests_per_s", LoadMetric{.kind = Kind::kRequestRate, .failure = {}});
  all.emplace_back("succeeded", LoadMetric{.kind = Kind::kSucceeded, .failure = {}});
  all.emplace_back("failures", LoadMetric{.kind = Kind::kFailed, .failure = {}});
  for (const evidence::FailureKind kind : evidence::kAllFailureKinds) {
    all.emplace_back(evidence::Name(kind), LoadMetric{.kind = Kind::kFailed, .failure = kind});
  }
  return all;
}

base::Result<LoadMetric> ParseMetric(std::string_view text) {
  const auto all = AllMetrics();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.first == text; });
  if (found != all.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, metric] : all) names.push_back(name);
  std::string meant = base::DidYouMean(text, names);
  if (meant.empty()) {
    meant =
        ": write ttft.p95 (or tpot, inter_chunk, e2e; p50, p90, p99), output_tokens_per_s, "
        "requests_per_s, succeeded, failures or a failure kind such as empty_output";
  }
  return base::UsageError("unknown metric " + Quoted(text) + meant);
}

// Reads the value in the metric's unit.
base::Status ParseValue(std::string_view metric, std::string_view text, FailIf& condition) {
  const auto quantity = base::ReadQuantity(text);
  const auto wrong = [&](std::string_view wanted) {
    return base::UsageError(
        fmt::format("{} is compared with {}, not with {}", metric, wanted, Quoted(text)));
  };
  switch (condition.metric.kind) {
    case Kind::kLatency: {
      const auto duration = quantity ? base::DurationOf(*quantity) : std::nullopt;
      if (!duration) return wrong("a duration such as 800ms or 1.5s");
      condition.value = std::chrono::duration<double, std::milli>(*duration).count();
      return {};
    }
    case Kind::kOutputRate:
      if (!quantity || quantity->unit != "tok/s") return wrong("a rate such as 900tok/s");
      break;
    case Kind::kRequestRate:
      if (!quantity || quantity->unit != "/s") return wrong("a rate such as 2.5/s");
      break;
    case Kind::kSucceeded:
    case Kind::kFailed:
      condition.share = quantity && quantity->unit == "%";
      if (!quantity || !(condition.share || quantity->unit.empty())) {
        return wrong("a share such as 1% or a number of requests such as 0");
      }
      if (condition.share && quantity->number > 100) return wrong("a share from 0% to 100%");
      break;
  }
  condition.value = quantity->number;
  return {};
}

bool Compare(double left, Op op, double right) {
  switch (op) {
    case Op::kAbove:
      return left > right;
    case Op::kAtLeast:
      return left >= right;
    case Op::kBelow:
      return left < right;
    case Op::kAtMost:
      break;
  }
  return left <= right;
}

std::string Trim(double value) {
  return fmt::format("{:.5g}", value);
}

std::string Show(double milliseconds) {
  return milliseconds < 1000 ? Trim(milliseconds) + " ms" : Trim(milliseconds / 1000) + " s";
}

struct Measured {
  double value = 0;
  std::string shown;
};

std::optional<Measured> LatencyOf(const LoadMetric& metric, const LoadNumbers& numbers) {
  const auto latency = numbers.latency_ms.find(metric.latency);
  if (latency == numbers.latency_ms.end()) return std::nullopt;
  const auto value = latency->second.find(metric.percentile);
  if (value == latency->second.end()) return std::nullopt;
  const evidence::ValueCount& count = numbers.values.at(metric.latency);
  return Measured{value->second,
                  fmt::format("{} ({})", Show(value->second),
                              evidence::DescribePercentile(metric.percentile, count))};
}

std::optional<Measured> CountOf(const FailIf& condition, const LoadNumbers& numbers) {
  const int sent = numbers.counts.requests;
  if (sent == 0) return std::nullopt;
  int count = numbers.succeeded();
  if (condition.metric.kind == Kind::kFailed) {
    count = numbers.counts.failed();
    if (condition.metric.failure) {
      const auto of_kind = numbers.counts.by_kind.find(*condition.metric.failure);
      count = of_kind == numbers.counts.by_kind.end() ? 0 : of_kind->second;
    }
  }
  // A share is compared as count · 100 with value · sent: nothing is rounded by a division.
  return Measured{condition.share ? 100.0 * count : count,
                  fmt::format("{} of {} requests ({:.2f} %)", count, sent, 100.0 * count / sent)};
}

std::optional<Measured> Measure(const FailIf& condition, const LoadNumbers& numbers) {
  switch (condition.metric.kind) {
    case Kind::kLatency:
      return LatencyOf(condition.metric, numbers);
    case Kind::kOutputRate:
      if (!numbers.output_tokens_per_s) return std::nullopt;
      return Measured{*numbers.output_tokens_per_s, Trim(*numbers.output_tokens_per_s) + " tok/s"};
    case Kind::kRequestRate:
      if (!numbers.requests_per_s) return std::nullopt;
      return Measured{*numbers.requests_per_s, Trim(*numbers.requests_per_s) + " requests/s"};
    case Kind::kSucceeded:
    case Kind::kFailed:
      break;
  }
  return CountOf(condition, numbers);
}

}  // namespace

base::Result<FailIf> ParseFailIf(std::string_view text) {
  FailIf condition;
  condition.expression = std::string(Trimmed(text));
  const std::string_view whole = condition.expression;
  const std::size_t at = whole.find_first_of("<>=!");
  const auto op = std::find_if(kOps.begin(), kOps.end(), [&](const auto& each) {
    return at != whole.npos && whole.substr(at).starts_with(each.first);
  });
  if (op == kOps.end()) {
    return base::UsageError(Quoted(whole) +
                            " is no condition: write METRIC > VALUE, or >=, < or <=, such as "
                            "\"ttft.p95 > 800ms\"");
  }
  const std::string_view metric = Trimmed(whole.substr(0, at));
  UG_ASSIGN(condition.metric, ParseMetric(metric));
  condition.op = op->second;
  UG_TRY(ParseValue(metric, Trimmed(whole.substr(at + op->first.size())), condition));
  return condition;
}

FailIfResult Evaluate(const FailIf& condition, const LoadNumbers& numbers) {
  FailIfResult result;
  result.expression = condition.expression;
  const auto measured = Measure(condition, numbers);
  if (!measured) {
    result.message = "there is no value, since no request succeeded that could have one";
    return result;
  }
  result.message = "it is " + measured->shown;
  const bool counts =
      condition.metric.kind == Kind::kSucceeded || condition.metric.kind == Kind::kFailed;
  if (!counts && !numbers.client_valid()) {
    result.verdict = Verdict::kInconclusive;
    result.message += ", but the client hurt what it measured";
    return result;
  }
  const double limit =
      condition.share ? condition.value * numbers.counts.requests : condition.value;
  const bool holds = Compare(measured->value, condition.op, limit);
  result.verdict = holds ? Verdict::kFail : Verdict::kPass;
  return result;
}

}  // namespace upgrade_gate::gates
