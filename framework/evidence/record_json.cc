#include "framework/evidence/record_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "framework/base/text.h"
#include "framework/evidence/json_fields.h"
#include "framework/evidence/limits.h"

namespace upgrade_gate::evidence {
namespace {

using base::Json;

// Where each stamp of a request is written, in the order in which they come.
struct Stamp {
  const char* key;
  std::optional<base::Nanoseconds> RequestTimes::*member;
};
constexpr Stamp kStamps[] = {{"scheduled_ns", &RequestTimes::scheduled},
                             {"sent_ns", &RequestTimes::sent},
                             {"first_byte_ns", &RequestTimes::first_byte},
                             {"first_token_ns", &RequestTimes::first_token},
                             {"first_text_ns", &RequestTimes::first_text},
                             {"last_token_ns", &RequestTimes::last_token},
                             {"done_ns", &RequestTimes::done},
                             {"closed_ns", &RequestTimes::closed}};

std::string Shown(const std::string& text) {
  return base::Visible(text, /*keep_lines=*/true);
}

Json ShownList(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push_back(Shown(text));
  return list;
}

Json RequestToJson(const RequestRecord& request, Phase phase) {
  Json json = {{"schema", kSchema},
               {"index", request.index},
               {"phase", Name(phase)},
               {"body_sha256", request.body_sha256},
               {"prompt_sha256", request.prompt_sha256},
               {"input_tokens", base::OrNull(request.input_tokens)},
               {"output_tokens", request.output_tokens}};
  for (const Stamp& stamp : kStamps) json[stamp.key] = NsOrNull(request.times.*stamp.member);
  json["http_status"] = base::OrNull(request.http_status);
  json["usage"] = nullptr;
  if (request.usage) {
    json["usage"] = {{"prompt_tokens", request.usage->prompt_tokens},
                     {"completion_tokens", request.usage->completion_tokens}};
  }
  json["finish_reason"] = TextOrNull(Shown(request.finish_reason));
  // Only where it says something: most requests are streams of plain text.
  if (!request.streamed) json["streamed"] = false;
  if (request.empty_allowed) json["empty_allowed"] = true;
  json["text_bytes"] = request.text_bytes;
  if (request.reasoning_bytes > 0) {
    json["reasoning"] = {{"field", Shown(request.reasoning_field)},
                         {"bytes", request.reasoning_bytes}};
  }
  if (request.tool_calls > 0) json["tool_calls"] = request.tool_calls;
  json["chunks"] = request.chunks;
  json["failure"] = nullptr;
  if (request.failure) {
    json["failure"] = {{"kind", Name(request.failure->kind)},
                       {"detail", Shown(request.failure->detail)}};
  }
  json["notes"] = ShownList(request.notes);
  return json;
}

base::Result<FailureKind> KindFrom(const std::string& name) {
  const auto kind = FailureKindFrom(name);
  if (kind) return *kind;
  std::vector<std::string> names;
  for (const FailureKind known : kAllFailureKinds) names.emplace_back(Name(known));
  return base::EvidenceError(fmt::format("unknown failure kind \"{}\"{}",
                                         base::Shorten(base::Visible(name), 80),
                                         base::DidYouMean(name, names)));
}

base::Result<StopReason> StopReasonMember(const Json& json) {
  UG_ASSIGN(const std::string name, base::StringMember(json, "stopped"));
  if (const auto reason = StopReasonFrom(name)) return *reason;
  return base::EvidenceError(fmt::format("\"stopped\" is \"{}\", which is no reason to stop",
                                         base::Shorten(base::Visible(name), 80)));
}

// The one member that may be missing: without an allocation, and in evidence from
// before there was one. Never an empty list, so that one value has one spelling.
base::Result<std::vector<std::string>> GpusMember(const Json& json) {
  if (!json.contains("gpus")) return std::vector<std::string>{};
  UG_ASSIGN(auto gpus, TextList(json, "gpus"));
  if (gpus.empty() || gpus.size() > kMaxGpus ||
      !std::all_of(gpus.begin(), gpus.end(), base::IsPlainName)) {
    return base::EvidenceError("\"gpus\" is not a list of GPUs");
  }
  return gpus;
}

base::Result<std::optional<Usage>> UsageMember(const Json& json) {
  UG_ASSIGN(const Json* member, base::Member(json, "usage"));
  if (member->is_null()) return std::nullopt;
  Usage usage;
  UG_ASSIGN(usage.prompt_tokens, IntIn(*member, "prompt_tokens", 0, kMaxTokens));
  UG_ASSIGN(usage.completion_tokens, IntIn(*member, "completion_tokens", 0, kMaxTokens));
  return usage;
}

base::Result<std::optional<Failure>> FailureMember(const Json& json) {
  UG_ASSIGN(const Json* member, base::Member(json, "failure"));
  if (member->is_null()) return std::nullopt;
  Failure failure;
  UG_ASSIGN(const std::string kind, base::StringMember(*member, "kind"));
  UG_ASSIGN(failure.kind, KindFrom(kind));
  UG_ASSIGN(failure.detail, base::StringMember(*member, "detail"));
  return failure;
}

base::Result<RequestRecord> RequestFromJson(const Json& json, Phase phase) {
  RequestRecord request;
  UG_TRY(CheckSchema(json));
  UG_ASSIGN(const std::string phase_name, base::StringMember(json, "phase"));
  if (phase_name != Name(phase)) {
    return base::EvidenceError(fmt::format("\"phase\" is \"{}\" in a file of \"{}\"",
                                           base::Shorten(base::Visible(phase_name), 80),
                                           Name(phase)));
  }
  UG_ASSIGN(request.index, SmallInt(json, "index", 0, kMaxRequests - 1));
  UG_ASSIGN(request.body_sha256, Digest(json, "body_sha256"));
  UG_ASSIGN(request.prompt_sha256, Digest(json, "prompt_sha256"));
  UG_ASSIGN(const Json* input_tokens, base::Member(json, "input_tokens"));
  if (!input_tokens->is_null()) {
    UG_ASSIGN(request.input_tokens, IntIn(json, "input_tokens", 0, kMaxTokens));
  }
  UG_ASSIGN(request.output_tokens, IntIn(json, "output_tokens", 0, kMaxTokens));
  for (const Stamp& stamp : kStamps) {
    UG_ASSIGN(request.times.*stamp.member, OptionalNs(json, stamp.key));
  }
  UG_ASSIGN(request.http_status, OptionalInt(json, "http_status", 0, 999));
  UG_ASSIGN(request.usage, UsageMember(json));
  UG_ASSIGN(request.finish_reason, OptionalText(json, "finish_reason"));
  UG_ASSIGN(request.text_bytes, IntIn(json, "text_bytes", 0, kMaxBytes));
  if (json.contains("streamed")) {
    UG_ASSIGN(request.streamed, base::BoolMember(json, "streamed"));
  }
  if (json.contains("empty_allowed")) {
    UG_ASSIGN(request.empty_allowed, base::BoolMember(json, "empty_allowed"));
  }
  if (json.contains("reasoning")) {
    UG_ASSIGN(const Json* reasoning, base::Member(json, "reasoning"));
    UG_ASSIGN(request.reasoning_field, base::StringMember(*reasoning, "field"));
    UG_ASSIGN(request.reasoning_bytes, IntIn(*reasoning, "bytes", 1, kMaxBytes));
  }
  if (json.contains("tool_calls")) {
    UG_ASSIGN(request.tool_calls, IntIn(json, "tool_calls", 1, kMaxBytes));
  }
  UG_ASSIGN(request.chunks, IntIn(json, "chunks", 0, kMaxBytes));
  UG_ASSIGN(request.failure, FailureMember(json));
  UG_ASSIGN(request.notes, TextList(json, "notes"));
  return request;
}

std::map<FailureKind, int> CountKinds(const std::vector<RequestRecord>& requests) {
  std::map<FailureKind, int> counts;
  for (const RequestRecord& request : requests) {
    if (request.failure) ++counts[request.failure->kind];
  }
  return counts;
}

// "16 planned, but 15 sent + 0 not sent = 15: 1 too few"
base::Status AddsUp(std::string_view whole_name, std::int64_t whole, const std::string& parts,
                    std::int64_t sum) {
  if (whole == sum) return {};
  return base::EvidenceError(fmt::format("{} {}, but {} = {}: {} too {}", whole, whole_name, parts,
                                         sum, std::abs(whole - sum), sum < whole ? "few" : "many"));
}

// round.json's own arithmetic, then its agreement with the records beside it.
base::Status CheckCounts(const Json& json, const RoundRecord& round) {
  const std::int64_t planned = round.planned;
  UG_ASSIGN(const std::int64_t sent, IntIn(json, "sent", 0, kMaxRequests));
  UG_ASSIGN(const std::int64_t not_sent, IntIn(json, "not_sent", 0, kMaxRequests));
  UG_ASSIGN(const std::int64_t accepted, IntIn(json, "accepted", 0, kMaxRequests));
  UG_ASSIGN(const auto failures, FailuresFromJson(json, "failures"));
  UG_ASSIGN(const std::int64_t warmup, IntIn(json, "warmup", 0, kMaxRequests));
  UG_TRY(AddsUp("planned", planned, fmt::format("{} sent + {} not sent", sent, not_sent),
                sent + not_sent));
  std::string parts = fmt::format("{} accepted", accepted);
  std::int64_t sum = accepted;
  for (const auto& [kind, count] : failures) {
    parts += fmt::format(" + {} {}", count, Name(kind));
    sum += count;
  }
  UG_TRY(AddsUp("sent", sent, parts, sum));

  const auto held = static_cast<std::int64_t>(round.requests.size());
  const auto held_warmup = static_cast<std::int64_t>(round.warmup.size());
  UG_TRY(AddsUp("sent", sent, fmt::format("{} records", held), held));
  UG_TRY(AddsUp("in the warm-up", warmup, fmt::format("{} records", held_warmup), held_warmup));
  const auto counted = CountKinds(round.requests);
  for (const FailureKind kind : kAllFailureKinds) {
    const auto said = failures.find(kind);
    const auto seen = counted.find(kind);
    const int seen_count = seen == counted.end() ? 0 : seen->second;
    UG_TRY(AddsUp(Name(kind), said == failures.end() ? 0 : said->second,
                  fmt::format("{} records of it", seen_count), seen_count));
  }
  return {};
}

}  // namespace

std::string WriteRequests(const std::vector<RequestRecord>& requests, Phase phase) {
  std::string out;
  for (const RequestRecord& request : requests) {
    out += base::WriteJsonLine(RequestToJson(request, phase));
    out += '\n';
  }
  return out;
}

base::Result<std::vector<RequestRecord>> ReadRequests(std::string_view jsonl, Phase phase) {
  std::vector<RequestRecord> requests;
  for (std::int64_t number = 1; !jsonl.empty(); ++number) {
    const auto place = [&] { return fmt::format("line {}", number); };
    if (number > kMaxRequests) {
      return base::EvidenceError(fmt::format("holds more than {} requests", kMaxRequests));
    }
    const std::size_t end = jsonl.find('\n');
    if (end == std::string_view::npos) {
      return base::EvidenceError(place() + ": does not end with a newline; the file is cut short");
    }
    if (end > kMaxRecordLineBytes) {
      return base::EvidenceError(
          fmt::format("{}: is longer than the cap of {} bytes", place(), kMaxRecordLineBytes));
    }
    const auto json = base::ParseJson(jsonl.substr(0, end));
    if (!json) return tl::unexpected(base::At(place(), json.error()));
    auto request = RequestFromJson(*json, phase);
    if (!request) return tl::unexpected(base::At(place(), request.error()));
    requests.push_back(*std::move(request));
    jsonl.remove_prefix(end + 1);
  }
  return requests;
}

Json RoundToJson(const RoundRecord& round) {
  const auto sent = static_cast<int>(round.requests.size());
  const auto by_kind = CountKinds(round.requests);
  int failed = 0;
  for (const auto& [kind, count] : by_kind) failed += count;
  Json json = {{"schema", kSchema},
               {"case", round.case_name},
               {"arm", round.arm},
               {"boot", round.boot},
               {"step", round.step},
               {"round", round.round},
               {"planned", round.planned},
               {"sent", sent},
               {"not_sent", round.planned - sent},
               {"accepted", sent - failed},
               {"failures", FailuresToJson(by_kind)},
               {"warmup", round.warmup.size()},
               {"concurrency", round.concurrency},
               {"started_at", TextOrNull(round.started_at)},
               {"duration_ns", round.duration.count()},
               {"stopped", Name(round.stopped)},
               {"stop_detail", Shown(round.stop_detail)}};
  PutClient(round.client, json);
  if (!round.throttled.empty()) json["throttled"] = Shown(round.throttled);
  return json;
}

base::Status RoundFromJson(const Json& json, RoundRecord& with) {
  UG_TRY(CheckSchema(json));
  UG_ASSIGN(with.case_name, PlainName(json, "case"));
  UG_ASSIGN(with.arm, PlainName(json, "arm"));
  UG_ASSIGN(with.boot, SmallInt(json, "boot", 1, kMaxNumber));
  UG_ASSIGN(with.step, SmallInt(json, "step", 1, kMaxNumber));
  UG_ASSIGN(with.round, SmallInt(json, "round", 1, kMaxNumber));
  UG_ASSIGN(with.planned, SmallInt(json, "planned", 1, kMaxRequests));
  UG_ASSIGN(with.concurrency, SmallInt(json, "concurrency", 0, kMaxRequests));
  UG_ASSIGN(with.started_at, OptionalUtc(json, "started_at"));
  UG_ASSIGN(with.duration, Ns(json, "duration_ns"));
  UG_ASSIGN(with.stopped, StopReasonMember(json));
  UG_ASSIGN(with.stop_detail, base::StringMember(json, "stop_detail"));
  UG_ASSIGN(with.client, ClientMember(json));
  if (json.contains("throttled")) {
    UG_ASSIGN(with.throttled, base::StringMember(json, "throttled"));
  }
  return CheckCounts(json, with);
}

namespace {

Json ServerToJson(const ServerIdentity& server) {
  return {{"id", Shown(server.id)}, {"values", server.values}, {"warnings", server.warnings}};
}

base::Result<ServerIdentity> ServerFromJson(const Json& json) {
  ServerIdentity server;
  UG_ASSIGN(server.id, base::StringMember(json, "id"));
  UG_ASSIGN(const Json* values, Object(json, "values"));
  if (values->size() > kMaxIdentityValues) {
    return base::EvidenceError(fmt::format("\"values\" holds more than {}", kMaxIdentityValues));
  }
  for (const auto& [name, value] : values->items()) {
    if (!value.is_string()) {
      return base::EvidenceError(fmt::format("\"{}\" is not a string", base::Visible(name)));
    }
    server.values[name] = value.get<std::string>();
  }
  UG_ASSIGN(server.warnings, TextList(json, "warnings"));
  return server;
}

Json WarningsToJson(const std::vector<LogWarning>& warnings) {
  Json list = Json::array();
  for (const LogWarning& warning : warnings) {
    list.push_back({{"kind", Shown(warning.kind)},
                    {"count", warning.count},
                    {"line", warning.line},
                    {"text", Shown(warning.text)},
                    {"means", Shown(warning.means)}});
  }
  return list;
}

base::Result<std::vector<LogWarning>> WarningsFromJson(const Json& object) {
  UG_ASSIGN(const Json* list, Array(object, "warnings"));
  std::vector<LogWarning> warnings;
  for (const Json& item : *list) {
    LogWarning warning;
    UG_ASSIGN(warning.kind, base::StringMember(item, "kind"));
    UG_ASSIGN(warning.count, IntIn(item, "count", 1, kMaxBytes));
    UG_ASSIGN(warning.line, IntIn(item, "line", 1, kMaxBytes));
    UG_ASSIGN(warning.text, base::StringMember(item, "text"));
    UG_ASSIGN(warning.means, base::StringMember(item, "means"));
    warnings.push_back(std::move(warning));
  }
  return warnings;
}

// The members of a boot that may be missing.
base::Status ReadStart(const Json& json, BootRecord& boot) {
  if (json.contains("identity_strength")) {
    UG_ASSIGN(const std::string name, base::StringMember(json, "identity_strength"));
    const auto named = [&](IdentityStrength each) { return Name(each) == name; };
    constexpr IdentityStrength kAll[] = {IdentityStrength::kContent, IdentityStrength::kFile,
                                         IdentityStrength::kClaimed};
    const auto* const found = std::find_if(std::begin(kAll), std::end(kAll), named);
    if (found == std::end(kAll)) {
      return base::EvidenceError(
          fmt::format("\"identity_strength\" is \"{}\"", base::Visible(name)));
    }
    boot.strength = *found;
  }
  if (json.contains("server_host")) {
    UG_ASSIGN(boot.server_host, base::StringMember(json, "server_host"));
  }
  if (json.contains("server")) {
    UG_ASSIGN(const Json* server, Object(json, "server"));
    UG_ASSIGN(boot.server, ServerFromJson(*server));
  }
  if (json.contains("identity_change")) {
    UG_ASSIGN(boot.identity_change, base::StringMember(json, "identity_change"));
  }
  if (json.contains("warnings")) {
    UG_ASSIGN(boot.warnings, WarningsFromJson(json));
  }
  if (json.contains("stages")) {
    UG_ASSIGN(const Json* stages, Array(json, "stages"));
    for (const Json& item : *stages) {
      UG_ASSIGN(std::string name, PlainName(item, "name"));
      UG_ASSIGN(const base::Nanoseconds took, Ns(item, "ns"));
      boot.stages.emplace_back(std::move(name), took);
    }
  }
  if (json.contains("compile_cache")) {
    UG_ASSIGN(boot.compile_cache, PlainName(json, "compile_cache"));
  }
  if (json.contains("log")) {
    UG_ASSIGN(const Json* log, Object(json, "log"));
    constexpr std::int64_t kMost = std::int64_t{1} << 50;
    UG_ASSIGN(const std::int64_t written, IntIn(*log, "written_bytes", 0, kMost));
    UG_ASSIGN(const std::int64_t kept, IntIn(*log, "kept_bytes", 0, written));
    boot.log_written = static_cast<std::uint64_t>(written);
    boot.log_kept = static_cast<std::uint64_t>(kept);
    UG_ASSIGN(boot.log_sha256, Digest(*log, "kept_sha256"));
  }
  return {};
}

}  // namespace

Json BootToJson(const BootRecord& boot) {
  Json pins = Json::array();
  for (const BootRecord::Pin& pin : boot.pins) {
    pins.push_back({{"name", pin.name},
                    {"declared_sha256", TextOrNull(pin.declared)},
                    {"found_sha256", TextOrNull(pin.found)}});
  }
  Json json = {{"schema", kSchema},
               {"number", boot.number},
               {"step", boot.step},
               {"arm", boot.arm},
               {"resumes", base::OrNull(boot.resumes)},
               {"host", TextOrNull(boot.host)},
               {"client_sha256", TextOrNull(boot.client_sha256)},
               {"started_at", TextOrNull(boot.started_at)},
               {"version", TextOrNull(Shown(boot.version))},
               {"pins", std::move(pins)},
               {"identity_sha256", TextOrNull(boot.identity)},
               {"argv", boot.argv},
               {"ready_after_ns", boot.ready_after.count()},
               {"stopped", Name(boot.stopped)},
               {"stop_detail", Shown(boot.stop_detail)},
               {"exit", TextOrNull(Shown(boot.exit))}};
  // What came later is written only where there is something to say, so that
  // earlier evidence reads and writes the same.
  if (!boot.gpus.empty()) json["gpus"] = boot.gpus;
  if (!boot.server_host.empty()) json["server_host"] = Shown(boot.server_host);
  if (boot.strength != IdentityStrength::kContent) json["identity_strength"] = Name(boot.strength);
  if (boot.server != ServerIdentity{}) json["server"] = ServerToJson(boot.server);
  if (!boot.identity_change.empty()) json["identity_change"] = Shown(boot.identity_change);
  if (!boot.warnings.empty()) json["warnings"] = WarningsToJson(boot.warnings);
  if (!boot.stages.empty()) {
    json["stages"] = Json::array();
    for (const auto& [name, took] : boot.stages) {
      json["stages"].push_back({{"name", name}, {"ns", took.count()}});
    }
  }
  if (!boot.compile_cache.empty()) json["compile_cache"] = boot.compile_cache;
  if (!boot.log_sha256.empty()) {
    json["log"] = {{"written_bytes", boot.log_written},
                   {"kept_bytes", boot.log_kept},
                   {"kept_sha256", boot.log_sha256}};
  }
  return json;
}

base::Result<BootRecord> BootFromJson(const Json& json) {
  BootRecord boot;
  UG_TRY(CheckSchema(json));
  UG_ASSIGN(boot.number, SmallInt(json, "number", 1, kMaxNumber));
  UG_ASSIGN(boot.step, SmallInt(json, "step", 1, kMaxNumber));
  UG_ASSIGN(boot.arm, PlainName(json, "arm"));
  UG_ASSIGN(boot.resumes, OptionalInt(json, "resumes", 1, kMaxNumber));
  UG_ASSIGN(boot.host, OptionalText(json, "host"));
  UG_ASSIGN(boot.client_sha256, OptionalDigest(json, "client_sha256"));
  UG_ASSIGN(boot.gpus, GpusMember(json));
  UG_ASSIGN(boot.started_at, OptionalUtc(json, "started_at"));
  UG_ASSIGN(boot.version, OptionalText(json, "version"));
  UG_ASSIGN(const Json* pins, Array(json, "pins"));
  for (const Json& item : *pins) {
    BootRecord::Pin pin;
    UG_ASSIGN(pin.name, base::StringMember(item, "name"));
    UG_ASSIGN(pin.declared, OptionalDigest(item, "declared_sha256"));
    UG_ASSIGN(pin.found, OptionalDigest(item, "found_sha256"));
    boot.pins.push_back(std::move(pin));
  }
  UG_ASSIGN(boot.identity, OptionalDigest(json, "identity_sha256"));
  UG_ASSIGN(boot.argv, TextList(json, "argv"));
  UG_ASSIGN(boot.ready_after, Ns(json, "ready_after_ns"));
  UG_ASSIGN(boot.stopped, StopReasonMember(json));
  UG_ASSIGN(boot.stop_detail, base::StringMember(json, "stop_detail"));
  UG_ASSIGN(boot.exit, OptionalText(json, "exit"));
  UG_TRY(ReadStart(json, boot));
  return boot;
}

Json FactsToJson(const std::vector<Fact>& facts) {
  Json list = Json::array();
  for (const Fact& fact : facts) {
    Json json = {{"name", fact.name},
                 {"state", Name(fact.state)},
                 {"value", fact.state == FactState::kPresent ? Json(Shown(fact.value)) : nullptr},
                 {"source", Shown(fact.source)}};
    if (!fact.compared) json["compared"] = false;
    list.push_back(std::move(json));
  }
  return list;
}

namespace {

base::Result<Fact> FactFromJson(const Json& json) {
  constexpr FactState kAll[] = {FactState::kPresent, FactState::kAbsent, FactState::kUnknown};
  Fact fact;
  UG_ASSIGN(fact.name, PlainName(json, "name"));
  UG_ASSIGN(const std::string state, base::StringMember(json, "state"));
  const auto* const found = std::find_if(std::begin(kAll), std::end(kAll),
                                         [&](FactState each) { return Name(each) == state; });
  if (found == std::end(kAll)) {
    return base::EvidenceError(
        fmt::format("\"state\" of {} is neither present, absent nor unknown", fact.name));
  }
  fact.state = *found;
  UG_ASSIGN(const Json* value, base::Member(json, "value"));
  if (value->is_string() != (fact.state == FactState::kPresent)) {
    return base::EvidenceError(
        fmt::format("{} is {}, and its \"value\" says otherwise", fact.name, state));
  }
  if (value->is_string()) fact.value = value->get<std::string>();
  UG_ASSIGN(fact.source, base::StringMember(json, "source"));
  if (json.contains("compared")) {
    UG_ASSIGN(fact.compared, base::BoolMember(json, "compared"));
  }
  return fact;
}

}  // namespace

base::Result<std::vector<Fact>> FactsFromJson(const Json& object, std::string_view key) {
  UG_ASSIGN(const Json* list, Array(object, key));
  if (list->size() > kMaxFacts) {
    return base::EvidenceError(fmt::format("\"{}\" holds more than {} facts", key, kMaxFacts));
  }
  std::vector<Fact> facts;
  for (const Json& item : *list) {
    auto fact = FactFromJson(item);
    if (!fact) {
      return tl::unexpected(base::At(fmt::format("{}[{}]", key, facts.size()), fact.error()));
    }
    if (!facts.empty() && facts.back().name >= fact->name) {
      return base::EvidenceError(
          fmt::format("{}[{}]: {} comes after {}; facts are by name, each once", key, facts.size(),
                      fact->name, facts.back().name));
    }
    facts.push_back(*std::move(fact));
  }
  return facts;
}

Json CaptureToJson(const CaptureRecord& capture) {
  return {{"schema", kSchema},
          {"plan", capture.plan_name},
          {"workload_sha256", TextOrNull(capture.workload)},
          {"key_sha256", TextOrNull(capture.key)},
          {"client_version", TextOrNull(capture.client_version)},
          {"client_sha256", TextOrNull(capture.client_sha256)},
          {"host", TextOrNull(capture.host)},
          {"started_at", TextOrNull(capture.started_at)},
          {"sealed_at", TextOrNull(capture.sealed_at)},
          {"complete", capture.complete},
          {"incidents", ShownList(capture.incidents)}};
}

base::Result<CaptureRecord> CaptureFromJson(const Json& json) {
  CaptureRecord capture;
  UG_TRY(CheckSchema(json));
  UG_ASSIGN(capture.plan_name, base::StringMember(json, "plan"));
  UG_ASSIGN(capture.workload, OptionalDigest(json, "workload_sha256"));
  UG_ASSIGN(capture.key, OptionalDigest(json, "key_sha256"));
  UG_ASSIGN(capture.client_version, OptionalText(json, "client_version"));
  UG_ASSIGN(capture.client_sha256, OptionalDigest(json, "client_sha256"));
  UG_ASSIGN(capture.host, OptionalText(json, "host"));
  UG_ASSIGN(capture.started_at, OptionalUtc(json, "started_at"));
  UG_ASSIGN(capture.sealed_at, OptionalUtc(json, "sealed_at"));
  UG_ASSIGN(capture.complete, base::BoolMember(json, "complete"));
  UG_ASSIGN(capture.incidents, TextList(json, "incidents"));
  return capture;
}

Json FailuresToJson(const std::map<FailureKind, int>& by_kind) {
  Json json = Json::object();
  for (const auto& [kind, count] : by_kind) {
    if (count > 0) json[std::string(Name(kind))] = count;
  }
  return json;
}

base::Result<std::map<FailureKind, int>> FailuresFromJson(const Json& object,
                                                          std::string_view key) {
  UG_ASSIGN(const Json* json, Object(object, key));
  std::map<FailureKind, int> by_kind;
  for (const auto& [name, value] : json->items()) {
    UG_ASSIGN(const FailureKind kind, KindFrom(name));
    UG_ASSIGN(by_kind[kind], SmallInt(*json, name, 1, kMaxCount));
  }
  return by_kind;
}

}  // namespace upgrade_gate::evidence
