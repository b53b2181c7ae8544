#include "framework/plan/plan.h"

#include <algorithm>
#include <cmath>

namespace upgrade_gate::plan {
namespace {

template <typename Range, typename Predicate>
auto FindIf(const Range& range, Predicate predicate) -> decltype(range.data()) {
  const auto it = std::find_if(range.begin(), range.end(), predicate);
  return it == range.end() ? nullptr : &*it;
}

}  // namespace

std::string_view Name(LauncherKind kind) {
  switch (kind) {
    case LauncherKind::kDocker:
      return "docker";
    case LauncherKind::kCommand:
      return "command";
    case LauncherKind::kEndpoint:
      return "endpoint";
    case LauncherKind::kProcess:
      break;
  }
  return "process";
}

std::string_view Name(PullPolicy policy) {
  switch (policy) {
    case PullPolicy::kNever:
      return "never";
    case PullPolicy::kMissing:
      break;
  }
  return "missing";
}

std::string_view Name(ArmRole role) {
  switch (role) {
    case ArmRole::kBaseline:
      return "baseline";
    case ArmRole::kCandidate:
      return "candidate";
    case ArmRole::kAttribution:
      break;
  }
  return "attribution";
}

std::string_view Name(Api api) {
  return api == Api::kChat ? "chat" : "completions";
}

std::string_view Name(PromptKind kind) {
  switch (kind) {
    case PromptKind::kText:
      return "text";
    case PromptKind::kFile:
      return "file";
    case PromptKind::kSyntheticTokens:
      break;
  }
  return "synthetic-tokens";
}

std::string_view Name(PromptFormat format) {
  switch (format) {
    case PromptFormat::kShareGpt:
      return "sharegpt";
    case PromptFormat::kAiperf:
      return "aiperf";
    case PromptFormat::kJsonl:
      break;
  }
  return "jsonl";
}

std::string_view Name(Acceptance profile) {
  return profile == Acceptance::kLenient ? "lenient" : "strict";
}

std::string_view Name(OutputStop stop) {
  return stop == OutputStop::kNatural ? "natural" : "fixed";
}

std::string_view Name(KeepStreams keep) {
  return keep == KeepStreams::kAll ? "all" : "failed";
}

std::string_view Name(Arrivals arrivals) {
  switch (arrivals) {
    case Arrivals::kConstant:
      return "constant";
    case Arrivals::kPoisson:
      break;
  }
  return "poisson";
}

std::string_view Name(GateKind kind) {
  switch (kind) {
    case GateKind::kThroughput:
      return "throughput";
    case GateKind::kLatency:
      return "latency";
    case GateKind::kFailures:
      return "failures";
    case GateKind::kProvenance:
      return "provenance";
    case GateKind::kNative:
      break;
  }
  return "native";
}

std::string_view Name(Severity severity) {
  switch (severity) {
    case Severity::kRequired:
      return "required";
    case Severity::kAdvisory:
      break;
  }
  return "advisory";
}

GateKind Gate::kind() const {
  if (std::holds_alternative<ThroughputGate>(rule)) return GateKind::kThroughput;
  if (std::holds_alternative<LatencyGate>(rule)) return GateKind::kLatency;
  if (std::holds_alternative<FailuresGate>(rule)) return GateKind::kFailures;
  if (std::holds_alternative<ProvenanceGate>(rule)) return GateKind::kProvenance;
  return GateKind::kNative;
}

const Arm* ResolvedPlan::FindArm(std::string_view arm) const {
  return FindIf(arms, [&](const Arm& a) { return a.name == arm; });
}

const Case* ResolvedPlan::FindCase(std::string_view case_name) const {
  return FindIf(workload.cases, [&](const Case& c) { return c.name == case_name; });
}

const Gate* ResolvedPlan::FindGate(std::string_view id) const {
  return FindIf(gates, [&](const Gate& g) { return g.id == id; });
}

const Arm* ResolvedPlan::baseline() const {
  return FindIf(arms, [](const Arm& a) { return a.role == ArmRole::kBaseline; });
}

const Arm* ResolvedPlan::candidate() const {
  return FindIf(arms, [](const Arm& a) { return a.role == ArmRole::kCandidate; });
}

std::vector<const Case*> ResolvedPlan::Select(const Selection& selection) const {
  std::vector<const Case*> selected;
  for (const Case& c : workload.cases) {
    if (selection.case_name && c.name != *selection.case_name) continue;
    if (selection.shape && c.shape != *selection.shape) continue;
    selected.push_back(&c);
  }
  return selected;
}

int Case::early_in_flight() const {
  if (!open) return concurrency;
  return static_cast<int>(
      std::clamp(std::ceil(open->rate.value), 1.0, static_cast<double>(open->max_in_flight)));
}

int ResolvedPlan::warmup_requests(const Case& of) const {
  return workload.warmup_requests.value_or(of.early_in_flight());
}

int ResolvedPlan::rounds(const Case& of) const {
  int most = 0;
  for (const BootStep& step : order) {
    const bool runs = std::find(step.cases.begin(), step.cases.end(), of.name) != step.cases.end();
    if (runs) most = std::max(most, step.rounds);
  }
  return most;
}

}  // namespace upgrade_gate::plan
