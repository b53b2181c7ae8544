// The resolved plan as JSON. Places in the file and values of the runner's
// environment are never part of it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/base/digest.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/plan/plan_file.h"

namespace upgrade_gate::plan {
namespace {

using base::Json;

Json ToJson(const PinnedFile& file) {
  return {{"path", file.path}, {"sha256", file.sha256}};
}

Json ToJson(const Environment& env) {
  Json json = Json::object();
  for (const auto& [name, value] : env) {
    json[name] = value.from_environment ? Json{{"from_env", *value.from_environment}}
                                        : Json(value.literal.value_or(""));
  }
  return json;
}

Json ToJson(const Model& model) {
  return {{"served_name", model.served_name},
          {"snapshot", model.snapshot},
          {"digest", base::OrNull(model.digest)}};
}

// What is there: lists and texts that are not empty.
template <typename T>
void WriteUnlessEmpty(Json& json, const char* key, const T& value) {
  if (!value.empty()) json[key] = value;
}

Json ToJson(const CommandSettings& launch) {
  Json json = {{"start", launch.start}};
  WriteUnlessEmpty(json, "stop", launch.stop);
  WriteUnlessEmpty(json, "cleanup", launch.cleanup);
  WriteUnlessEmpty(json, "address", launch.address);
  WriteUnlessEmpty(json, "identity", launch.identity);
  WriteUnlessEmpty(json, "logs", launch.logs);
  return json;
}

Json ToJson(const EndpointSettings& endpoint) {
  Json json = Json::object();
  WriteUnlessEmpty(json, "identity", endpoint.identity);
  WriteUnlessEmpty(json, "identity_header", endpoint.identity_header);
  WriteUnlessEmpty(json, "ca", endpoint.ca_file);
  if (!endpoint.token_variable.empty()) json["token"] = {{"from_env", endpoint.token_variable}};
  return json;
}

// Options that came later are written only where they are not at their default:
// evidence of a plan that does not use them keeps its workload's digest.
template <typename T>
void WriteUnless(const T& standard, Json& json, const char* key, const T& value) {
  if (value != standard) json[key] = value;
}

void WriteDocker(Json& json, const DockerSettings& docker) {
  const DockerSettings standard;
  WriteUnless(standard.network, json, "network", docker.network);
  WriteUnless(standard.shm_bytes, json, "shm_bytes", docker.shm_bytes);
  for (const Ulimit& limit : docker.ulimits) {
    json["ulimits"][limit.name] = {{"soft", limit.soft}, {"hard", limit.hard}};
  }
  WriteUnless(standard.user, json, "user", docker.user);
  if (docker.entrypoint) json["entrypoint"] = *docker.entrypoint;
  WriteUnless(standard.devices, json, "devices", docker.devices);
  WriteUnless(standard.group_add, json, "group_add", docker.group_add);
  WriteUnless(standard.security_opt, json, "security_opt", docker.security_opt);
  WriteUnless(standard.cap_add, json, "cap_add", docker.cap_add);
  WriteUnless(standard.compile_cache, json, "compile_cache", docker.compile_cache);
}

void WriteDeadlines(Json& json, const StageLimits& limits) {
  const auto write = [&](const char* stage, const auto& limit) {
    if (limit) json["deadlines_ms"][stage] = limit->count();
  };
  write("pull", limits.pull);
  write("boot", limits.boot);
  write("load", limits.load);
  write("ready", limits.ready);
}

// Only what the plan gives: a plan without log rules keeps its workload's digest.
void WriteFactSources(Json& json, const ServerSettings& server) {
  if (!server.log_rules.sets.empty()) json["log_rules"]["sets"] = server.log_rules.sets;
  if (!server.log_rules.file.empty()) json["log_rules"]["file"] = server.log_rules.file;
  for (const FactProbe& probe : server.fact_probes) {
    json["facts"].push_back(
        {{"fact", probe.fact}, {"argv", probe.argv}, {"compare", probe.compared}});
  }
}

Json ToJson(const ServerSettings& server) {
  Json json = {{"launcher", Name(server.launcher)},
               {"ready_timeout_ms", server.ready_timeout.count()},
               {"stop_timeout_ms", server.stop_timeout.count()}};
  if (server.launcher == LauncherKind::kCommand) json["launch"] = ToJson(server.command_launcher);
  if (server.launcher == LauncherKind::kEndpoint) json["endpoint"] = ToJson(server.endpoint);
  WriteDeadlines(json, server.limits);
  WriteFactSources(json, server);
  if (server.launcher != LauncherKind::kDocker) return json;
  json["mounts"] = Json::array();
  for (const Mount& mount : server.mounts) {
    json["mounts"].push_back(
        {{"source", mount.source}, {"target", mount.target}, {"read_only", mount.read_only}});
  }
  json["gpus"] = server.gpus;
  json["ipc"] = server.ipc;
  json["pull"] = Name(server.pull);
  WriteDocker(json, server.docker);
  return json;
}

// By name: the order of the file says nothing, that of the boots is `order`.
Json ToJson(const std::vector<Arm>& arms) {
  std::vector<const Arm*> sorted;
  for (const Arm& arm : arms) sorted.push_back(&arm);
  std::sort(sorted.begin(), sorted.end(),
            [](const Arm* a, const Arm* b) { return a->name < b->name; });
  Json json = Json::object();
  for (const Arm* arm : sorted) {
    Json& out = json[arm->name];
    out["role"] = Name(arm->role);
    if (!arm->image.empty()) out["image"] = arm->image;
    if (arm->image_file) out["image_file"] = ToJson(*arm->image_file);
    WriteUnlessEmpty(out, "built_from", arm->built_from);
    WriteUnlessEmpty(out, "url", arm->url);
    WriteUnlessEmpty(out, "before", arm->before);
    WriteUnlessEmpty(out, "identity", arm->identity);
    if (arm->executable) out["executable"] = ToJson(*arm->executable);
    if (!arm->files.empty()) {
      out["files"] = Json::array();
      for (const PinnedFile& file : arm->files) out["files"].push_back(ToJson(file));
    }
    out["command"] = arm->command;
    out["env"] = ToJson(arm->env);
  }
  return json;
}

Json ToJson(const Prompts& prompts) {
  const Prompts standard;
  Json json = {{"kind", Name(prompts.kind)}};
  if (prompts.kind == PromptKind::kFile) {
    json["file"] = ToJson(prompts.file);
    json["format"] = Name(prompts.format);
  } else {
    json["seed"] = prompts.seed;
  }
  if (prompts.kind == PromptKind::kSyntheticTokens) {
    json["first_id"] = prompts.first_id;
    json["id_count"] = prompts.id_count;
  }
  WriteUnless(standard.excluded_ids, json, "excluded_ids", prompts.excluded_ids);
  WriteUnless(standard.shared_prefix, json, "shared_prefix", prompts.shared_prefix);
  WriteUnless(standard.turns, json, "turns", prompts.turns);
  WriteUnless(standard.fresh, json, "fresh", prompts.fresh);
  if (prompts.images > 0) {
    json["images"] = prompts.images;
    json["image_pixels"] = prompts.image_pixels;
  }
  return json;
}

Json ToJson(const Sampling& sampling) {
  const Sampling standard;
  Json json = {
      {"temperature", sampling.temperature}, {"top_p", sampling.top_p}, {"seed", sampling.seed}};
  WriteUnless(standard.top_k, json, "top_k", sampling.top_k);
  WriteUnless(standard.min_p, json, "min_p", sampling.min_p);
  WriteUnless(standard.presence_penalty, json, "presence_penalty", sampling.presence_penalty);
  WriteUnless(standard.frequency_penalty, json, "frequency_penalty", sampling.frequency_penalty);
  WriteUnless(standard.repetition_penalty, json, "repetition_penalty", sampling.repetition_penalty);
  return json;
}

// What a case has of its own.
void WriteRequestKeys(Json& json, const Case& c, const Workload& workload) {
  if (c.api != workload.api) json["api"] = Name(c.api);
  WriteUnless(ToJson(workload.prompts), json, "prompts", ToJson(c.prompts));
  WriteUnless(ToJson(workload.sampling), json, "sampling", ToJson(c.sampling));
  if (c.stop != OutputStop::kFixed) json["stop"] = Name(c.stop);
  WriteUnless(false, json, "allow_empty_output", c.allow_empty_output);
}

Json ToJson(const Workload& workload) {
  Json json;
  json["api"] = Name(workload.api);
  json["prompts"] = ToJson(workload.prompts);
  json["sampling"] = ToJson(workload.sampling);
  if (workload.acceptance != Acceptance::kStrict) json["acceptance"] = Name(workload.acceptance);
  if (workload.keep_streams != KeepStreams::kFailed) {
    json["keep_streams"] = Name(workload.keep_streams);
  }
  json["rounds"] = workload.rounds;
  json["warmup"] = {{"requests", workload.warmup_requests ? Json(*workload.warmup_requests)
                                                          : Json("concurrency")}};
  json["guard"] = {{"consecutive_failures", base::OrNull(workload.guard.consecutive_failures)}};
  json["request_timeout_ms"] = workload.request_timeout.count();
  json["stall_limit_ms"] = workload.stall_limit.count();
  json["cases"] = Json::array();
  for (const Case& c : workload.cases) {
    Json out = {
        {"name", c.name}, {"input_tokens", c.input_tokens}, {"output_tokens", c.output_tokens}};
    // The order of the keys is part of the digest.
    if (c.open) {
      out["rate_per_s"] = c.open->rate.value;
      out["arrivals"] = Name(c.open->arrivals);
      out["ramp_ms"] = c.open->ramp.count();
      out["max_in_flight"] = c.open->max_in_flight;
      json["arrivals_seed"] = workload.arrivals_seed;  // says nothing without an open loop
    } else {
      out["concurrency"] = c.concurrency;
    }
    out["requests"] = c.requests;
    out["shape"] = c.shape;
    WriteRequestKeys(out, c, workload);
    json["cases"].push_back(std::move(out));
  }
  return json;
}

// Everything that determines the run, and nothing that only judges it.
Json WorkloadOf(const ResolvedPlan& plan) {
  Json json;
  json["name"] = plan.name;
  json["model"] = ToJson(plan.model);
  json["server"] = ToJson(plan.server);
  json["arms"] = ToJson(plan.arms);
  json["order"] = Json::array();
  for (const BootStep& step : plan.order) {
    json["order"].push_back({{"arm", step.arm}, {"cases", step.cases}, {"rounds", step.rounds}});
  }
  json["workload"] = ToJson(plan.workload);
  return json;
}

Json ToJson(const Gate& gate) {
  Json json = {{"id", gate.id}, {"kind", Name(gate.kind())}, {"severity", Name(gate.severity)}};
  if (gate.selection.case_name) json["case"] = *gate.selection.case_name;
  if (gate.selection.shape) json["shape"] = *gate.selection.shape;
  if (const auto* rule = std::get_if<ThroughputGate>(&gate.rule)) {
    if (rule->min_gain) json["min_gain_percent"] = rule->min_gain->value;
    if (rule->max_loss) {
      json["max_loss_percent"] = rule->max_loss->value;
      json["on_failures"] =
          rule->on_failures == OnFailures::kAdvisory ? "advisory" : "inconclusive";
    }
    if (rule->min) json["min_tokens_per_s"] = rule->min->value;
    json["confidence_percent"] = rule->confidence.value;
  } else if (const auto* latency = std::get_if<LatencyGate>(&gate.rule)) {
    json["metric"] = evidence::Name(latency->metric);
    json["percentile"] = latency->percentile;
    if (latency->max_increase) json["max_increase_percent"] = latency->max_increase->value;
    if (latency->max) json["max_us"] = latency->max->count();
    json["confidence_percent"] = latency->confidence.value;
  } else if (const auto* failures = std::get_if<FailuresGate>(&gate.rule)) {
    json["failure_kind"] = failures->kind ? evidence::Name(*failures->kind) : "any";
    json["arm"] = failures->arm;
    json["max_rate_percent"] = failures->max_rate.value;
    json["confidence_percent"] = failures->confidence.value;
  } else if (const auto* native = std::get_if<NativeGate>(&gate.rule)) {
    json["test"] = native->test;
  }
  return json;
}

bool HasNames(const Json& list) {
  return list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& item) {
           return item.is_object() && item.contains("name") && item["name"].is_string();
         });
}

const Json* Named(const Json& list, const Json& name) {
  const auto it = std::find_if(list.begin(), list.end(),
                               [&](const Json& item) { return item["name"] == name; });
  return it == list.end() ? nullptr : &*it;
}

std::string Shown(const Json* value) {
  if (value == nullptr) return "absent";
  if (value->is_object() || value->is_array())
    return value->is_object() ? "present" : "another list";
  constexpr std::size_t kDigestShown = 12;
  if (value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    if (base::IsSha256Hex(text)) return text.substr(0, kDigestShown) + "…";
  }
  return base::Visible(base::Shorten(base::WriteJsonLine(*value), 120));
}

std::string Difference(const std::string& path, const Json* here, const Json* there);

// The first difference below two objects; by the keys of `here`, then of `there`.
std::string ObjectDifference(const std::string& path, const Json& here, const Json& there) {
  const std::string prefix = path.empty() ? "" : path + ".";
  for (const auto& [key, value] : here.items()) {
    const auto other = there.find(key);
    std::string found = Difference(prefix + key, &value, other == there.end() ? nullptr : &*other);
    if (!found.empty()) return found;
  }
  for (const auto& [key, value] : there.items()) {
    if (!here.contains(key)) return Difference(prefix + key, nullptr, &value);
  }
  return "";
}

std::string ListDifference(const std::string& path, const Json& here, const Json& there) {
  if (HasNames(here) && HasNames(there)) {
    for (const Json& item : here) {
      const std::string at = fmt::format("{}[{}]", path, item["name"].get<std::string>());
      std::string found = Difference(at, &item, Named(there, item["name"]));
      if (!found.empty()) return found;
    }
    for (const Json& item : there) {
      const std::string at = fmt::format("{}[{}]", path, item["name"].get<std::string>());
      if (Named(here, item["name"]) == nullptr) return Difference(at, nullptr, &item);
    }
    return path + ": another order here";
  }
  for (std::size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
    std::string found =
        Difference(fmt::format("{}[{}]", path, i), i < here.size() ? &here[i] : nullptr,
                   i < there.size() ? &there[i] : nullptr);
    if (!found.empty()) return found;
  }
  return "";
}

std::string Difference(const std::string& path, const Json* here, const Json* there) {
  if (here != nullptr && there != nullptr) {
    if (*here == *there) return "";
    if (here->is_object() && there->is_object()) return ObjectDifference(path, *here, *there);
    if (here->is_array() && there->is_array()) return ListDifference(path, *here, *there);
  }
  std::string left = Shown(here);
  std::string right = Shown(there);
  if (left == right) {
    left = base::WriteJsonLine(*here);
    right = base::WriteJsonLine(*there);
  }
  return base::Visible(path.empty() ? "the workload" : path) + ": " + left + " here, " + right +
         " there";
}

}  // namespace

std::string WriteResolved(const ResolvedPlan& plan) {
  Json json;
  json["schema"] = 1;
  json["workload"] = WorkloadOf(plan);
  json["boot_noise"] = {{"value_percent", plan.boot_noise.value.value},
                        {"reason", plan.boot_noise.reason}};
  if (plan.deadline) json["deadline_ms"] = plan.deadline->count();
  json["gates"] = Json::array();
  for (const Gate& gate : plan.gates) json["gates"].push_back(ToJson(gate));
  json["expected_changes"] = Json::array();
  for (const ExpectedChange& change : plan.expected_changes) {
    json["expected_changes"].push_back({{"fact", change.fact},
                                        {"from", change.from},
                                        {"to", change.to},
                                        {"reason", change.reason}});
  }
  json["not_covered"] = plan.not_covered;
  return base::WriteJson(json);
}

std::string WriteWorkload(const ResolvedPlan& plan) {
  return base::WriteJsonLine(WorkloadOf(plan));
}

base::Sha256Hex WorkloadDigest(const ResolvedPlan& plan) {
  return base::Sha256Of(WriteWorkload(plan));
}

std::string FirstDifference(std::string_view here_workload_json,
                            std::string_view there_resolved_json) {
  const auto here = base::ParseJson(here_workload_json);
  if (!here) return "the workload of this plan cannot be read: " + here.error().message;
  const auto there = base::ParseJson(there_resolved_json);
  if (!there) return "the stored plan cannot be read: " + there.error().message;
  const auto workload = base::Member(*there, "workload");
  if (!workload) return "the stored plan cannot be read: " + workload.error().message;
  return Difference("", &*here, *workload);
}

}  // namespace upgrade_gate::plan
