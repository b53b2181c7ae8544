// summary.json: WriteSummary and ReadSummary.
#include <fmt/format.h>

#include <utility>

#include "framework/base/text.h"
#include "framework/evidence/json_fields.h"
#include "framework/evidence/limits.h"
#include "framework/evidence/record_json.h"
#include "framework/evidence/summary.h"

namespace upgrade_gate::evidence {
namespace {

using base::Json;

std::string MetricKey(Metric metric) {
  return fmt::format("{}_ms", Name(metric));
}
std::string PercentileKey(int percentile) {
  return fmt::format("p{}", percentile);
}

// Adds an error's place to it.
template <typename T>
base::Result<T> In(const std::string& place, base::Result<T> result) {
  if (result) return result;
  return tl::unexpected(base::At(base::Visible(place), std::move(result).error()));
}

base::Status CheckArmName(const std::string& name) {
  if (base::IsPlainName(name)) return {};
  return base::EvidenceError(
      fmt::format("\"{}\" is not the name of an arm", base::Shorten(base::Visible(name), 80)));
}

void PutCounts(const FailureCounts& counts, Json& json) {
  json["requests"] = counts.requests;
  json["failed"] = counts.failed();
  json["failures"] = FailuresToJson(counts.by_kind);
}

base::Result<FailureCounts> CountsFrom(const Json& json) {
  FailureCounts counts;
  UG_ASSIGN(counts.requests, SmallInt(json, "requests", 0, kMaxCount));
  UG_ASSIGN(counts.by_kind, FailuresFromJson(json, "failures"));
  UG_ASSIGN(const int failed, SmallInt(json, "failed", 0, kMaxCount));
  if (failed != counts.failed() || failed > counts.requests) {
    return base::EvidenceError(
        fmt::format("\"failed\" is {}, but its kinds add up to {} of {} requests", failed,
                    counts.failed(), counts.requests));
  }
  return counts;
}

Json LatencyToJson(const Latency& latency) {
  Json json = {{"count", latency.count}};
  for (const int percentile : kPercentiles) {
    const auto it = latency.percentiles_ms.find(percentile);
    json[PercentileKey(percentile)] =
        it == latency.percentiles_ms.end() ? Json(nullptr) : Json(it->second);
  }
  return json;
}

base::Result<Latency> LatencyFrom(const Json& json) {
  Latency latency;
  UG_ASSIGN(latency.count, SmallInt(json, "count", 0, kMaxCount));
  for (const int percentile : kPercentiles) {
    const std::string key = PercentileKey(percentile);
    UG_ASSIGN(const Json* member, base::Member(json, key));
    if (member->is_null()) continue;
    if (latency.count == 0) {
      return base::EvidenceError(fmt::format("\"{}\" is a percentile of nothing", key));
    }
    UG_ASSIGN(latency.percentiles_ms[percentile], Amount(json, key));
  }
  return latency;
}

Json RoundSummaryToJson(const RoundSummary& round) {
  Json json = {{"boot", round.boot}, {"round", round.round}, {"planned", round.planned}};
  PutCounts(round.counts, json);
  json["stopped"] = Name(round.stopped);
  json["duration_s"] = round.duration_s;
  json["output_tokens"] = round.output_tokens;
  json["output_tokens_per_s"] = round.output_tokens_per_s;
  for (const Metric metric : kAllMetrics) {
    const auto it = round.latency.find(metric);
    json[MetricKey(metric)] = it == round.latency.end() ? Json(nullptr) : LatencyToJson(it->second);
  }
  json["inputs_sha256"] = TextOrNull(round.inputs);
  PutClient(round.client, json);
  if (!round.throttled.empty()) json["throttled"] = round.throttled;
  return json;
}

base::Result<RoundSummary> RoundSummaryFrom(const Json& json) {
  RoundSummary round;
  UG_ASSIGN(round.boot, SmallInt(json, "boot", 1, kMaxNumber));
  UG_ASSIGN(round.round, SmallInt(json, "round", 1, kMaxNumber));
  UG_ASSIGN(round.planned, SmallInt(json, "planned", 0, kMaxRequests));
  UG_ASSIGN(round.counts, CountsFrom(json));
  if (round.counts.requests > round.planned) {
    return base::EvidenceError(
        fmt::format("{} requests, but only {} were planned", round.counts.requests, round.planned));
  }
  UG_ASSIGN(const std::string stopped, base::StringMember(json, "stopped"));
  const auto reason = StopReasonFrom(stopped);
  if (!reason) return base::EvidenceError("\"stopped\" is no reason to stop");
  round.stopped = *reason;
  UG_ASSIGN(round.duration_s, Amount(json, "duration_s"));
  UG_ASSIGN(round.output_tokens, IntIn(json, "output_tokens", 0, kMaxTokens * kMaxRequests));
  UG_ASSIGN(round.output_tokens_per_s, Amount(json, "output_tokens_per_s"));
  for (const Metric metric : kAllMetrics) {
    const std::string key = MetricKey(metric);
    UG_ASSIGN(const Json* member, base::Member(json, key));
    if (member->is_null()) continue;
    UG_ASSIGN(round.latency[metric], In(key, LatencyFrom(*member)));
  }
  UG_ASSIGN(round.inputs, OptionalDigest(json, "inputs_sha256"));
  UG_ASSIGN(round.client, In("client", ClientMember(json)));
  if (json.contains("throttled")) {
    UG_ASSIGN(round.throttled, base::StringMember(json, "throttled"));
  }
  return round;
}

Json ArmRoundsToJson(const ArmRounds& arm) {
  Json json = Json::object();
  PutCounts(arm.counts, json);
  Json warmup = Json::object();
  PutCounts(arm.warmup, warmup);
  json["warmup"] = std::move(warmup);
  json["superseded_rounds"] = arm.superseded_rounds;
  json["rounds"] = Json::array();
  for (const RoundSummary& round : arm.rounds) json["rounds"].push_back(RoundSummaryToJson(round));
  return json;
}

base::Result<ArmRounds> ArmRoundsFrom(const Json& json) {
  ArmRounds arm;
  UG_ASSIGN(arm.counts, CountsFrom(json));
  UG_ASSIGN(const Json* warmup, Object(json, "warmup"));
  UG_ASSIGN(arm.warmup, In("warmup", CountsFrom(*warmup)));
  UG_ASSIGN(arm.superseded_rounds, SmallInt(json, "superseded_rounds", 0, kMaxCount));
  UG_ASSIGN(const Json* rounds, Array(json, "rounds"));
  for (const Json& item : *rounds) {
    UG_ASSIGN(RoundSummary round,
              In(fmt::format("rounds[{}]", arm.rounds.size()), RoundSummaryFrom(item)));
    arm.rounds.push_back(std::move(round));
  }
  return arm;
}

// Unlike in boot.json the facts are with it; earlier evidence has none.
Json WholeBootToJson(const BootRecord& boot) {
  Json json = BootToJson(boot);
  if (!boot.facts.empty()) json["facts"] = FactsToJson(boot.facts);
  if (!boot.host_facts.empty()) json["host_facts"] = FactsToJson(boot.host_facts);
  return json;
}

base::Result<BootRecord> WholeBootFrom(const Json& json) {
  UG_ASSIGN(BootRecord boot, BootFromJson(json));
  if (json.contains("facts")) {
    UG_ASSIGN(boot.facts, FactsFromJson(json, "facts"));
  }
  if (json.contains("host_facts")) {
    UG_ASSIGN(boot.host_facts, FactsFromJson(json, "host_facts"));
  }
  return boot;
}

base::Result<CaseSummary> CaseFrom(const Json& json) {
  CaseSummary summary;
  UG_ASSIGN(summary.name, PlainName(json, "name"));
  UG_ASSIGN(const Json* arms, Object(json, "arms"));
  for (const auto& [name, arm] : arms->items()) {
    UG_TRY(CheckArmName(name));
    UG_ASSIGN(summary.arms[name],
              In(fmt::format("case {}, arm {}", summary.name, name), ArmRoundsFrom(arm)));
  }
  return summary;
}

base::Result<ArmTotal> ArmTotalFrom(const Json& json) {
  ArmTotal total;
  UG_ASSIGN(total.counts, CountsFrom(json));
  UG_ASSIGN(total.rounds, SmallInt(json, "rounds", 0, kMaxCount));
  return total;
}

}  // namespace

std::string WriteSummary(const Summary& summary) {
  Json json = {{"schema", kSchema}, {"capture", CaptureToJson(summary.capture)}};
  json["boots"] = Json::array();
  for (const BootRecord& boot : summary.boots) json["boots"].push_back(WholeBootToJson(boot));
  json["cases"] = Json::array();
  for (const CaseSummary& each : summary.cases) {
    Json arms = Json::object();
    for (const auto& [name, arm] : each.arms) arms[name] = ArmRoundsToJson(arm);
    json["cases"].push_back({{"name", each.name}, {"arms", std::move(arms)}});
  }
  json["arms"] = Json::object();
  for (const auto& [name, total] : summary.arms) {
    Json& arm = json["arms"][name] = Json::object();
    PutCounts(total.counts, arm);
    arm["rounds"] = total.rounds;
  }
  return base::WriteJson(json);
}

base::Result<Summary> ReadSummary(std::string_view text) {
  Summary summary;
  UG_ASSIGN(const Json json, base::ParseJson(text));
  UG_TRY(CheckSchema(json));
  UG_ASSIGN(const Json* capture, Object(json, "capture"));
  UG_ASSIGN(summary.capture, In("capture", CaptureFromJson(*capture)));
  UG_ASSIGN(const Json* boots, Array(json, "boots"));
  UG_ASSIGN(const Json* cases, Array(json, "cases"));
  if (boots->size() > kMaxBoots || cases->size() > kMaxCases) {
    return base::EvidenceError(fmt::format("more than {} boots or {} cases", kMaxBoots, kMaxCases));
  }
  for (const Json& item : *boots) {
    UG_ASSIGN(BootRecord boot,
              In(fmt::format("boots[{}]", summary.boots.size()), WholeBootFrom(item)));
    if (summary.FindBoot(boot.number) != nullptr) {
      return base::EvidenceError(fmt::format("boot {}: is there twice", boot.number));
    }
    summary.boots.push_back(std::move(boot));
  }
  for (const Json& item : *cases) {
    UG_ASSIGN(CaseSummary each, In(fmt::format("cases[{}]", summary.cases.size()), CaseFrom(item)));
    if (summary.FindCase(each.name) != nullptr) {
      return base::EvidenceError("case " + each.name + ": is there twice");
    }
    summary.cases.push_back(std::move(each));
  }
  UG_ASSIGN(const Json* arms, Object(json, "arms"));
  for (const auto& [name, total] : arms->items()) {
    UG_TRY(CheckArmName(name));
    UG_ASSIGN(summary.arms[name], In(fmt::format("arm {}", name), ArmTotalFrom(total)));
  }
  return summary;
}

}  // namespace upgrade_gate::evidence
