#include "framework/cli/load_json.h"

#include <algorithm>
#include <map>

#include "framework/base/json.h"
#include "framework/evidence/client_health.h"

namespace upgrade_gate::cli {
namespace {

using base::Json;
using evidence::LoadLatency;

// {"p50", "p90", "p95", "p99"}, null where there is no value.
Json Percentiles(const std::map<int, double>& values) {
  Json json;
  for (const int percentile : evidence::kPercentiles) {
    const auto found = values.find(percentile);
    json["p" + std::to_string(percentile)] =
        found == values.end() ? Json(nullptr) : Json(found->second);
  }
  return json;
}

Json Failures(const evidence::FailureCounts& counts) {
  Json json = Json::object();
  for (const auto& [kind, count] : counts.by_kind) json[std::string(evidence::Name(kind))] = count;
  return json;
}

std::string KeyOf(LoadLatency latency) {
  return std::string(evidence::Name(latency)) + "_ms";
}

Json Client(const evidence::LoadNumbers& numbers) {
  Json findings = Json::array();
  double lag_us = 0, cpu_share = 0;  // of the worst round
  for (const evidence::LoadRoundNumbers& round : numbers.rounds) {
    for (const evidence::ClientFinding& finding : round.findings) {
      findings.push_back({{"finding", evidence::Name(finding.fault)},
                          {"round", round.summary.round},
                          {"message", finding.sentence}});
    }
    const evidence::ClientHealth& client = *round.summary.client;
    const double lag = std::chrono::duration<double, std::micro>(client.lag_p99).count();
    lag_us = std::max(lag_us, lag);
    cpu_share = std::max(cpu_share, client.cpu_share);
  }
  return {{"valid", numbers.client_valid()},
          {"findings", std::move(findings)},
          {"lag_us", {{"p99", lag_us}}},
          {"cpu_share", cpu_share}};
}

Json Round(const evidence::LoadRoundNumbers& round) {
  const evidence::RoundSummary& of = round.summary;
  Json json = {{"round", of.round},
               {"requests", of.counts.requests},
               {"succeeded", of.counts.requests - of.counts.failed()},
               {"failures", Failures(of.counts)},
               {"duration_s", of.duration_s},
               {"output_tokens_per_s", of.output_tokens_per_s},
               {"requests_per_s", round.requests_per_s}};
  for (const LoadLatency latency : evidence::kAllLoadLatencies) {
    const evidence::Latency& values = round.latency.at(latency);
    Json& out = json[KeyOf(latency)];
    out = Percentiles(values.percentiles_ms);
    out["count"] = values.count;
  }
  return json;
}

}  // namespace

std::string WriteLoadJson(const LoadSettings& settings, const LoadTest& test,
                          const evidence::LoadNumbers& numbers,
                          const std::vector<gates::FailIfResult>& conditions) {
  const plan::Case& round = settings.round;
  Json json;
  json["schema"] = evidence::kSchema;
  json["complete"] = test.incomplete.empty();
  if (!test.incomplete.empty()) json["incomplete"] = test.incomplete;
  json["started_at"] = test.started_at;
  json["url"] = settings.endpoint;
  json["model"] = settings.model;
  json["api"] = plan::Name(round.api);
  json["acceptance"] = plan::Name(settings.acceptance);
  json["input_tokens"] = round.input_tokens;
  json["input"] = test.input;
  json["output_tokens"] = round.output_tokens;
  json["stop"] = plan::Name(round.stop);
  json["concurrency"] = round.open ? Json(nullptr) : Json(round.concurrency);
  json["rate_per_s"] = round.open ? Json(round.open->rate.value) : Json(nullptr);
  json["arrivals"] = round.open ? Json(plan::Name(round.open->arrivals)) : Json(nullptr);
  json["seed"] = test.seed;
  json["planned"] = base::OrNull(numbers.planned);
  json["sent"] = numbers.counts.requests;
  json["succeeded"] = numbers.succeeded();
  json["failures"] = Failures(numbers.counts);
  json["warmup"] = {{"requests", numbers.warmup.requests}, {"failures", Failures(numbers.warmup)}};
  json["duration_s"] = numbers.duration_s;
  json["output_tokens_per_s"] = base::OrNull(numbers.output_tokens_per_s);
  json["requests_per_s"] = base::OrNull(numbers.requests_per_s);
  for (const LoadLatency latency : evidence::kAllLoadLatencies) {
    const auto found = numbers.latency_ms.find(latency);
    json[KeyOf(latency)] =
        Percentiles(found == numbers.latency_ms.end() ? std::map<int, double>() : found->second);
  }
  json["client"] = Client(numbers);
  json["rounds"] = Json::array();
  for (const evidence::LoadRoundNumbers& each : numbers.rounds) {
    json["rounds"].push_back(Round(each));
  }
  json["fail_if"] = Json::array();
  for (const gates::FailIfResult& condition : conditions) {
    const bool undecided = condition.verdict == gates::Verdict::kInconclusive;
    json["fail_if"].push_back(
        {{"expression", condition.expression},
         {"holds", undecided ? Json(nullptr) : Json(condition.verdict == gates::Verdict::kFail)},
         {"message", condition.message}});
  }
  return base::WriteJson(json);
}

}  // namespace upgrade_gate::cli
