#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/gates/findings.h"
#include "framework/gates/judge.h"

namespace upgrade_gate::gates {
namespace {

using base::Json;

constexpr int kSchema = 1;
constexpr std::size_t kMaxFragmentBytes = 4 << 20;
constexpr std::size_t kMaxCases = 10'000;
constexpr std::size_t kMaxLines = 100'000;

// What statistics computed, to nine digits: enough for anybody, and the same
// bytes where a mathematical library rounds its last digit otherwise.
Json Computed(double value) {
  if (!std::isfinite(value)) return nullptr;
  const std::string text = fmt::format("{:.9g}", value);
  double rounded = 0;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

Json Computed(const std::optional<double>& value) {
  return value ? Computed(*value) : nullptr;
}

Json Computed(const std::optional<Interval>& interval) {
  if (!interval) return nullptr;
  return Json::array({Computed(interval->lower), Computed(interval->upper)});
}

// As measured: exact.
Json Measured(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json OrNull(std::string_view text) {
  return text.empty() ? Json(nullptr) : Json(base::Visible(text));
}

Json FailuresJson(const evidence::FailureCounts& counts) {
  Json kinds = Json::object();
  for (const auto& [kind, count] : counts.by_kind) {
    if (count != 0) kinds[std::string(evidence::Name(kind))] = count;
  }
  return kinds;
}

Json LatencyJson(const evidence::RoundSummary& round, evidence::Metric metric) {
  Json json = Json::object();
  const auto found = round.latency.find(metric);
  json["count"] = found == round.latency.end() ? 0 : found->second.count;
  for (const int percentile : evidence::kPercentiles) {
    Json value = nullptr;
    if (found != round.latency.end()) {
      const auto& percentiles = found->second.percentiles_ms;
      if (const auto p = percentiles.find(percentile); p != percentiles.end()) {
        value = Measured(p->second);
      }
    }
    json[fmt::format("p{}", percentile)] = value;
  }
  return json;
}

Json RoundJson(const evidence::RoundSummary& round) {
  Json json = Json::object();
  json["boot"] = round.boot;
  json["round"] = round.round;
  json["planned"] = round.planned;
  json["requests"] = round.counts.requests;
  json["failed"] = round.counts.failed();
  json["stopped"] = round.stopped == evidence::StopReason::kNone
                        ? Json(nullptr)
                        : Json(std::string(evidence::Name(round.stopped)));
  json["duration_s"] = Measured(round.duration_s);
  json["output_tokens"] = round.output_tokens;
  json["output_tokens_per_s"] = Measured(round.output_tokens_per_s);
  for (const evidence::Metric metric : evidence::kAllMetrics) {
    json[std::string(evidence::Name(metric)) + "_ms"] = LatencyJson(round, metric);
  }
  return json;
}

Json ArmsJson(const evidence::Summary& summary) {
  Json arms = Json::object();
  for (const auto& [name, total] : summary.arms) {
    Json json = Json::object();
    json["requests"] = total.counts.requests;
    json["failed"] = total.counts.failed();
    json["failures"] = FailuresJson(total.counts);
    json["rounds"] = total.rounds;
    arms[base::Visible(name)] = std::move(json);
  }
  return arms;
}

Json BootsJson(const evidence::Summary& summary) {
  Json boots = Json::array();
  for (const evidence::BootRecord& boot : summary.boots) {
    Json json = Json::object();
    json["number"] = boot.number;
    json["arm"] = base::Visible(boot.arm);
    json["step"] = boot.step;
    json["resumes"] = base::OrNull(boot.resumes);
    json["host"] = OrNull(boot.host);
    json["version"] = OrNull(boot.version);
    json["identity"] = OrNull(boot.identity);
    json["client_sha256"] = OrNull(boot.client_sha256);
    json["started_at"] = OrNull(boot.started_at);
    json["stopped"] = boot.stopped == evidence::StopReason::kNone
                          ? Json(nullptr)
                          : Json(std::string(evidence::Name(boot.stopped)));
    if (!boot.server_host.empty()) json["server_host"] = base::Visible(boot.server_host);
    if (boot.strength != evidence::IdentityStrength::kContent) {
      json["identity_strength"] = std::string(evidence::Name(boot.strength));
    }
    boots.push_back(std::move(json));
  }
  return boots;
}

Json CaseJson(const CaseComparison& comparison, const evidence::Summary& summary) {
  Json json = Json::object();
  json["name"] = base::Visible(comparison.name);
  json["shape"] = OrNull(comparison.shape);
  json["dagger"] = comparison.dagger;
  Json arms = Json::object();
  if (const evidence::CaseSummary* of = summary.FindCase(comparison.name)) {
    for (const auto& [name, arm] : of->arms) {
      Json rounds = Json::array();
      for (const evidence::RoundSummary& round : arm.rounds) rounds.push_back(RoundJson(round));
      Json arm_json = Json::object();
      arm_json["requests"] = arm.counts.requests;
      arm_json["failed"] = arm.counts.failed();
      arm_json["failures"] = FailuresJson(arm.counts);
      arm_json["warmup_requests"] = arm.warmup.requests;
      arm_json["warmup_failed"] = arm.warmup.failed();
      arm_json["superseded_rounds"] = arm.superseded_rounds;
      arm_json["rounds"] = std::move(rounds);
      arms[base::Visible(name)] = std::move(arm_json);
    }
  }
  json["arms"] = std::move(arms);
  Json ratio = nullptr;
  if (const auto& of = comparison.output_tokens_per_s) {
    ratio = Json::object();
    ratio["estimate"] = Computed(of->estimate);
    ratio["interval"] = Computed(of->interval);
    ratio["rounds"] = of->rounds;
    ratio["boots"] = of->boots;
  }
  json["ratio"] = Json::object({{"output_tokens_per_s", std::move(ratio)}});
  return json;
}

Json FindingJson(Finding finding) {
  return finding == Finding::kNone ? Json(nullptr) : Json(std::string(Name(finding)));
}

Json CaseResultJson(const CaseResult& result) {
  Json json = Json::object();
  json["case"] = base::Visible(result.case_name);
  json["verdict"] = std::string(Name(result.verdict));
  json["finding"] = FindingJson(result.finding);
  json["message"] = base::Visible(result.message);
  json["baseline"] = Computed(result.baseline);
  json["candidate"] = Computed(result.candidate);
  json["estimate"] = Computed(result.estimate);
  json["interval"] = Computed(result.interval);
  json["rounds"] = result.rounds;
  json["boots"] = result.boots;
  return json;
}

Json GateJson(const GateResult& gate) {
  Json json = Json::object();
  json["id"] = base::Visible(gate.id);
  json["kind"] = std::string(plan::Name(gate.kind));
  json["severity"] = std::string(plan::Name(gate.severity));
  json["line"] = gate.location.line > 0 ? Json(gate.location.line) : Json(nullptr);
  json["verdict"] = std::string(Name(gate.verdict));
  json["finding"] = FindingJson(gate.finding);
  json["message"] = base::Visible(gate.message);
  json["estimate"] = Computed(gate.estimate);
  json["interval"] = Computed(gate.interval);
  json["margin"] = Computed(gate.margin);
  json["rounds"] = gate.rounds;
  json["boots"] = gate.boots;
  json["cases"] = Json::array();
  for (const CaseResult& result : gate.cases) json["cases"].push_back(CaseResultJson(result));
  return json;
}

Json LinesJson(const std::vector<std::string>& lines) {
  Json json = Json::array();
  for (const std::string& line : lines) json.push_back(base::Visible(line));
  return json;
}

// --- reading a fragment

base::Error Wrong(std::string_view key, std::string_view what) {
  return {base::ErrorKind::kEvidence, fmt::format("\"{}\" is not {}", key, what)};
}

// One of an enum's values by its name.
template <typename E>
base::Result<E> Named(const Json& object, std::string_view key, std::initializer_list<E> values,
                      std::string_view what) {
  UG_ASSIGN(const std::string name, base::StringMember(object, key));
  for (const E value : values) {
    if (name == Name(value)) return value;
  }
  return base::EvidenceError(
      fmt::format("\"{}\" is not {}", base::Shorten(base::Visible(name), 40), what));
}

base::Result<Verdict> VerdictFrom(const Json& object) {
  return Named(object, "verdict", {Verdict::kPass, Verdict::kFail, Verdict::kInconclusive},
               "a verdict (pass, fail or inconclusive)");
}

base::Result<Finding> FindingFrom(const Json& object) {
  UG_ASSIGN(const Json* json, base::Member(object, "finding"));
  if (json->is_null()) return Finding::kNone;
  UG_ASSIGN(const std::string name, base::StringMember(object, "finding"));
  if (const auto finding = FindingNamed(name)) return *finding;
  return tl::unexpected(Wrong("finding", "one that is known here"));
}

base::Result<base::Sha256Hex> DigestFrom(const Json& object, std::string_view key) {
  UG_ASSIGN(base::Sha256Hex digest, base::StringMember(object, key));
  if (!base::IsSha256Hex(digest)) return tl::unexpected(Wrong(key, "a SHA-256 digest"));
  return digest;
}

base::Result<std::optional<double>> NumberFrom(const Json& object, std::string_view key) {
  UG_ASSIGN(const Json* json, base::Member(object, key));
  if (json->is_null()) return std::optional<double>();
  UG_ASSIGN(const double value, base::NumberMember(object, key));
  if (!std::isfinite(value)) return tl::unexpected(Wrong(key, "a finite number"));
  return std::optional<double>(value);
}

base::Result<std::optional<Interval>> IntervalFrom(const Json& object) {
  UG_ASSIGN(const Json* json, base::Member(object, "interval"));
  if (json->is_null()) return std::optional<Interval>();
  if (!json->is_array() || json->size() != 2 || !(*json)[0].is_number() ||
      !(*json)[1].is_number()) {
    return tl::unexpected(Wrong("interval", "two numbers"));
  }
  const Interval interval{(*json)[0].get<double>(), (*json)[1].get<double>()};
  if (!std::isfinite(interval.lower) || !std::isfinite(interval.upper)) {
    return tl::unexpected(Wrong("interval", "two finite numbers"));
  }
  return std::optional<Interval>(interval);
}

base::Result<int> CountFrom(const Json& object, std::string_view key) {
  UG_ASSIGN(const std::int64_t value, base::IntMember(object, key));
  if (value < 0 || value > 1'000'000) return tl::unexpected(Wrong(key, "a count"));
  return static_cast<int>(value);
}

base::Result<const Json*> ListFrom(const Json& object, std::string_view key, std::size_t cap) {
  UG_ASSIGN(const Json* json, base::Member(object, key));
  if (!json->is_array()) return tl::unexpected(Wrong(key, "a list"));
  if (json->size() > cap) {
    return base::EvidenceError(fmt::format("\"{}\" has more than {} items", key, cap));
  }
  return json;
}

base::Result<CaseResult> CaseFrom(const Json& json) {
  CaseResult result;
  UG_ASSIGN(result.case_name, base::StringMember(json, "case"));
  UG_ASSIGN(result.verdict, VerdictFrom(json));
  UG_ASSIGN(result.finding, FindingFrom(json));
  UG_ASSIGN(result.message, base::StringMember(json, "message"));
  UG_ASSIGN(result.baseline, NumberFrom(json, "baseline"));
  UG_ASSIGN(result.candidate, NumberFrom(json, "candidate"));
  UG_ASSIGN(result.estimate, NumberFrom(json, "estimate"));
  UG_ASSIGN(result.interval, IntervalFrom(json));
  UG_ASSIGN(result.rounds, CountFrom(json, "rounds"));
  UG_ASSIGN(result.boots, CountFrom(json, "boots"));
  return result;
}

base::Result<GateResult> GateFrom(const Json& json) {
  using plan::GateKind;
  GateResult gate;
  UG_ASSIGN(gate.id, base::StringMember(json, "id"));
  if (!base::IsPlainName(gate.id)) return tl::unexpected(Wrong("id", "the id of a gate"));
  UG_ASSIGN(gate.kind, Named(json, "kind",
                             {GateKind::kThroughput, GateKind::kLatency, GateKind::kFailures,
                              GateKind::kProvenance, GateKind::kNative},
                             "a kind of gate"));
  UG_ASSIGN(gate.severity,
            Named(json, "severity", {plan::Severity::kRequired, plan::Severity::kAdvisory},
                  "a severity (required or advisory)"));
  UG_ASSIGN(const Json* line, base::Member(json, "line"));
  if (!line->is_null()) {
    UG_ASSIGN(gate.location.line, CountFrom(json, "line"));
  }
  UG_ASSIGN(gate.verdict, VerdictFrom(json));
  UG_ASSIGN(gate.finding, FindingFrom(json));
  UG_ASSIGN(gate.message, base::StringMember(json, "message"));
  UG_ASSIGN(gate.estimate, NumberFrom(json, "estimate"));
  UG_ASSIGN(gate.interval, IntervalFrom(json));
  UG_ASSIGN(gate.margin, NumberFrom(json, "margin"));
  UG_ASSIGN(gate.rounds, CountFrom(json, "rounds"));
  UG_ASSIGN(gate.boots, CountFrom(json, "boots"));
  UG_ASSIGN(const Json* cases, ListFrom(json, "cases", kMaxCases));
  for (const Json& item : *cases) {
    UG_ASSIGN(CaseResult of, CaseFrom(item));
    gate.cases.push_back(std::move(of));
  }
  UG_ASSIGN(const Json* lines, ListFrom(json, "explanation", kMaxLines));
  for (const Json& item : *lines) {
    if (!item.is_string()) return tl::unexpected(Wrong("explanation", "a list of lines"));
    gate.explanation.push_back(item.get<std::string>());
  }
  return gate;
}

}  // namespace

std::string WriteJudgement(const Judgement& judgement, const evidence::Summary& summary) {
  Json json = Json::object();
  json["schema"] = kSchema;
  json["plan"] = OrNull(summary.capture.plan_name);
  json["decision"] = std::string(Name(judgement.decision));
  json["reason"] = base::Visible(judgement.reason);
  json["orchestration"] = judgement.complete ? "complete" : "incomplete";
  json["incidents"] = LinesJson(judgement.incidents);
  json["rejudged"] = judgement.rejudged;
  json["evidence_sha256"] = OrNull(judgement.evidence);
  json["plan_sha256"] = OrNull(judgement.plan_sha256);
  json["candidate"] = OrNull(judgement.candidate_identity);
  json["rollback"] = OrNull(judgement.rollback_identity);
  json["conditions"] = LinesJson(judgement.conditions);
  json["not_covered"] = LinesJson(judgement.not_covered);
  json["arms"] = ArmsJson(summary);
  json["boots"] = BootsJson(summary);
  json["cases"] = Json::array();
  for (const CaseComparison& of : judgement.cases) json["cases"].push_back(CaseJson(of, summary));
  json["gates"] = Json::array();
  for (const GateResult& gate : judgement.gates) json["gates"].push_back(GateJson(gate));
  return base::WriteJson(json);
}

std::string WriteFragment(const Fragment& fragment) {
  Json json = Json::object({{"schema", kSchema},
                            {"evidence_sha256", fragment.evidence},
                            {"plan_sha256", fragment.plan}});
  json.update(GateJson(fragment.result));
  json["explanation"] = LinesJson(fragment.result.explanation);
  return base::WriteJson(json);
}

base::Result<Fragment> ReadFragment(std::string_view json) {
  if (json.size() > kMaxFragmentBytes) {
    return base::EvidenceError(
        fmt::format("a gate's result of {} bytes, more than {}", json.size(), kMaxFragmentBytes));
  }
  UG_ASSIGN(const Json root, base::ParseJson(json));
  UG_ASSIGN(const std::int64_t schema, base::IntMember(root, "schema"));
  if (schema != kSchema) {
    return base::EvidenceError(
        fmt::format("schema {} of a gate's result is not known here, only {}", schema, kSchema));
  }
  Fragment fragment;
  UG_ASSIGN(fragment.evidence, DigestFrom(root, "evidence_sha256"));
  UG_ASSIGN(fragment.plan, DigestFrom(root, "plan_sha256"));
  UG_ASSIGN(fragment.result, GateFrom(root));
  return fragment;
}

}  // namespace upgrade_gate::gates
