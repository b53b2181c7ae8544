// WriteVllmResult.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "framework/base/json.h"
#include "framework/cli/load_json.h"
#include "framework/evidence/summary.h"

namespace upgrade_gate::cli {
namespace {

using base::Json;
using evidence::Metric;
using evidence::RequestRecord;

constexpr double kMsPerSecond = 1000;

double Seconds(base::Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Between the two values that the percentile lies between, by their distance.
double Interpolated(const std::vector<double>& sorted, double percent) {
  const double place = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - std::floor(place)) * (sorted[above] - sorted[below]);
}

// mean_, median_, std_ and p99_<name>_ms; null for no values.
void PutStatistics(Json& json, const std::string& name, std::vector<double> values_ms) {
  std::optional<double> mean, median, deviation, p99;
  if (!values_ms.empty()) {
    std::sort(values_ms.begin(), values_ms.end());
    const auto count = static_cast<double>(values_ms.size());
    double sum = 0, squares = 0;
    for (const double value : values_ms) sum += value;
    mean = sum / count;
    for (const double value : values_ms) squares += (value - *mean) * (value - *mean);
    deviation = std::sqrt(squares / count);
    median = Interpolated(values_ms, 50);
    p99 = Interpolated(values_ms, 99);
  }
  json["mean_" + name + "_ms"] = base::OrNull(mean);
  json["median_" + name + "_ms"] = base::OrNull(median);
  json["std_" + name + "_ms"] = base::OrNull(deviation);
  json["p99_" + name + "_ms"] = base::OrNull(p99);
}

// One request on the time line of all rounds, one after the other.
struct Span {
  double start = 0, end = 0;  // seconds
  std::vector<double> outputs;
};

int MostAtOnce(const std::vector<Span>& spans) {
  std::vector<std::pair<double, int>> changes;
  for (const Span& span : spans) {
    changes.emplace_back(span.start, 1);
    changes.emplace_back(span.end, -1);
  }
  std::sort(changes.begin(), changes.end());  // an end before a start at the same time
  int now = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, now += change);
  return most;
}

// In the seconds that are counted from the first start.
double MostOutputsInASecond(const std::vector<Span>& spans) {
  if (spans.empty()) return 0;
  double first = spans.front().start;
  for (const Span& span : spans) first = std::min(first, span.start);
  std::vector<double> seconds;
  for (const Span& span : spans) {
    for (const double at : span.outputs) {
      seconds.push_back(std::floor(std::max(0.0, at - first)));
    }
  }
  std::sort(seconds.begin(), seconds.end());
  std::size_t most = 0;
  for (auto at = seconds.begin(); at != seconds.end();) {
    const auto end = std::upper_bound(at, seconds.end(), *at);
    most = std::max(most, static_cast<std::size_t>(end - at));
    at = end;
  }
  return static_cast<double>(most);
}

// "2026-11-29T21:40:05.123Z" as "20261129-214005".
std::string CompactDate(const std::string& utc) {
  std::string digits;
  for (const char c : utc.substr(0, utc.find('.'))) {
    if (c == 'T') digits += '-';
    if (c >= '0' && c <= '9') digits += c;
  }
  return digits;
}

const char* const kDifferences[] = {
    "a request fails that has no text, no [DONE], no valid usage or another output length than was "
    "asked for: its error stands in \"errors\" and it counts in no statistic",
    "latencies begin when the request should have been sent, so that a queue in the client is in "
    "them",
    "TTFT ends at the first nonempty text",
    "E2EL ends at the last output, not at the end of the response",
    "ITL is the time between events that carry output, which may have several tokens",
    "rounds stand one after the other; \"duration\" is their sum",
    "a statistic without a value is null, not 0; \"generated_texts\" are not kept",
    "times are UTC",
};

}  // namespace

std::string WriteVllmResult(const LoadSettings& settings, const LoadTest& test) {
  std::vector<double> ttfts_ms, tpots_ms, itls_ms, e2els_ms;
  Json input_lens = Json::array(), output_lens = Json::array(), ttfts = Json::array(),
       itls = Json::array(), latencies = Json::array(), start_times = Json::array(),
       queue_times = Json::array(), errors = Json::array();
  std::int64_t input_tokens = 0, output_tokens = 0;
  int completed = 0, sent = 0;
  double duration = 0;
  std::vector<Span> spans;
  for (const evidence::LoadRound& round : test.rounds) {
    for (std::size_t i = 0; i < round.record.requests.size(); ++i) {
      const RequestRecord& request = round.record.requests[i];
      ++sent;
      const base::Nanoseconds began = request.times.sent.value_or(base::Nanoseconds{});
      start_times.push_back(duration + Seconds(began));
      queue_times.push_back(Seconds(began - request.times.scheduled.value_or(began)));
      const std::int64_t input = request.input_tokens.value_or(
          request.usage ? request.usage->prompt_tokens : settings.round.input_tokens);
      input_lens.push_back(input);
      const auto ttft = evidence::LatencyMs(request, Metric::kTtft);
      const auto tpot = evidence::LatencyMs(request, Metric::kTpot);
      const auto e2el = evidence::LatencyMs(request, Metric::kE2e);
      ttfts.push_back(ttft.value_or(0) / kMsPerSecond);
      latencies.push_back(e2el.value_or(0) / kMsPerSecond);
      if (request.failure) {
        output_lens.push_back(0);
        itls.push_back(Json::array());
        errors.push_back(std::string(evidence::Name(request.failure->kind)) + ": " +
                         request.failure->detail);
        continue;
      }
      ++completed;
      errors.push_back("");
      input_tokens += input;
      const std::int64_t output = request.usage ? request.usage->completion_tokens : 0;
      output_lens.push_back(output);
      output_tokens += output;
      if (ttft) ttfts_ms.push_back(*ttft);
      if (tpot) tpots_ms.push_back(*tpot);
      if (e2el) e2els_ms.push_back(*e2el);
      Span span{duration + Seconds(began), duration, {}};
      if (request.times.last_token) span.end += Seconds(*request.times.last_token);
      double at = duration + Seconds(request.times.first_token.value_or(began));
      span.outputs.push_back(at);
      Json gaps = Json::array();
      for (const float gap_ms : round.gaps_ms[i]) {
        itls_ms.push_back(gap_ms);
        gaps.push_back(gap_ms / kMsPerSecond);
        span.outputs.push_back(at += gap_ms / kMsPerSecond);
      }
      itls.push_back(std::move(gaps));
      spans.push_back(std::move(span));
    }
    duration += Seconds(round.record.duration);
  }

  const plan::Case& round = settings.round;
  const auto rate = [&](double count) {
    return duration > 0 ? Json(count / duration) : Json(nullptr);
  };
  Json json;
  json["date"] = CompactDate(test.started_at);
  const char* const backend = round.api == plan::Api::kChat ? "openai-chat" : "openai";
  json["endpoint_type"] = backend;
  json["backend"] = backend;
  json["label"] = nullptr;
  json["model_id"] = settings.model;
  json["tokenizer_id"] = settings.model;
  json["num_prompts"] = sent;
  json["request_rate"] = round.open ? Json(round.open->rate.value) : Json("inf");
  const bool constant = round.open && round.open->arrivals == plan::Arrivals::kConstant;
  json["burstiness"] = constant ? Json(nullptr) : Json(1.0);
  json["max_concurrency"] = round.open ? Json(nullptr) : Json(round.concurrency);
  json["duration"] = duration;
  json["completed"] = completed;
  json["failed"] = sent - completed;
  json["total_input_tokens"] = input_tokens;
  json["total_output_tokens"] = output_tokens;
  json["request_throughput"] = rate(completed);
  json["request_goodput"] = nullptr;
  json["output_throughput"] = rate(static_cast<double>(output_tokens));
  json["total_token_throughput"] = rate(static_cast<double>(input_tokens + output_tokens));
  json["input_lens"] = std::move(input_lens);
  json["output_lens"] = std::move(output_lens);
  json["ttfts"] = std::move(ttfts);
  json["itls"] = std::move(itls);
  json["latencies"] = std::move(latencies);
  json["start_times"] = std::move(start_times);
  json["queue_times"] = std::move(queue_times);
  json["errors"] = std::move(errors);
  json["max_output_tokens_per_s"] = MostOutputsInASecond(spans);
  json["max_concurrent_requests"] = MostAtOnce(spans);
  PutStatistics(json, "ttft", std::move(ttfts_ms));
  PutStatistics(json, "tpot", std::move(tpots_ms));
  PutStatistics(json, "itl", std::move(itls_ms));
  PutStatistics(json, "e2el", std::move(e2els_ms));
  json["upgrade_gate"] = {{"schema", evidence::kSchema},
                          {"complete", test.incomplete.empty()},
                          {"differences", kDifferences}};
  return base::WriteJsonLine(json) + "\n";
}

}  // namespace upgrade_gate::cli
