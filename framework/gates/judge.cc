#include "framework/gates/judge.h"

#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/gates/comparison.h"
#include "framework/gates/conditions.h"
#include "framework/gates/kinds.h"
#include "framework/gates/provenance.h"
#include "framework/gates/wording.h"
#include "framework/plan/plan_file.h"

namespace upgrade_gate::gates {
namespace {

struct Tally {
  int required = 0;
  std::vector<std::string> failed;
  std::vector<std::string> open;
};

Tally TallyOf(const std::vector<GateResult>& gates) {
  Tally tally;
  for (const GateResult& gate : gates) {
    if (gate.severity != plan::Severity::kRequired) continue;
    ++tally.required;
    if (gate.verdict == Verdict::kFail) tally.failed.push_back(Shown(gate.id));
    if (gate.verdict == Verdict::kInconclusive) tally.open.push_back(Shown(gate.id));
  }
  return tally;
}

void Decide(Judgement& judgement) {
  const Tally tally = TallyOf(judgement.gates);
  const std::string incomplete =
      judgement.complete ? "" : "; the orchestration is incomplete, so nothing can be accepted";
  const auto of_required = [&](std::size_t n) {
    return fmt::format("{} of {}", n, Count(tally.required, "required gate"));
  };
  if (!tally.failed.empty()) {
    judgement.decision = Decision::kReject;
    judgement.reason = fmt::format("{} failed: {}", of_required(tally.failed.size()),
                                   base::JoinList(tally.failed));
    if (!tally.open.empty()) {
      judgement.reason += "; inconclusive: " + base::JoinList(tally.open);
    }
    if (!judgement.complete) judgement.reason += "; the orchestration is incomplete";
    return;
  }
  judgement.decision = Decision::kInconclusive;
  if (tally.required == 0) {
    judgement.reason = "the plan has no required gate, so nothing can be accepted" + incomplete;
  } else if (!tally.open.empty()) {
    judgement.reason = fmt::format("{} inconclusive: {}", of_required(tally.open.size()),
                                   base::JoinList(tally.open)) +
                       incomplete;
  } else if (!judgement.complete) {
    judgement.reason =
        fmt::format("{} passed", of_required(static_cast<std::size_t>(tally.required))) +
        incomplete;
  } else {
    judgement.decision = Decision::kAccept;
    judgement.reason =
        fmt::format("{} passed", of_required(static_cast<std::size_t>(tally.required)));
  }
}

// Of the boots that measured the arm, where all agree; empty otherwise.
base::Sha256Hex IdentityOf(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                           const plan::Arm* arm) {
  if (arm == nullptr) return {};
  base::Sha256Hex identity;
  for (const int number : UsedBoots(summary, plan.Select({}), {arm->name})) {
    const evidence::BootRecord* boot = summary.FindBoot(number);
    if (boot == nullptr || boot->arm != arm->name || !base::IsSha256Hex(boot->identity)) return {};
    if (!identity.empty() && identity != boot->identity) return {};
    identity = boot->identity;
  }
  return identity;
}

}  // namespace

std::string_view Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "pass";
    case Verdict::kFail:
      return "fail";
    case Verdict::kInconclusive:
      break;
  }
  return "inconclusive";
}

std::string_view Name(Decision decision) {
  switch (decision) {
    case Decision::kAccept:
      return "accept";
    case Decision::kReject:
      return "reject";
    case Decision::kInconclusive:
      break;
  }
  return "inconclusive";
}

GateResult JudgeGate(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                     const evidence::Summary& summary) {
  if (const auto* rule = std::get_if<plan::ThroughputGate>(&gate.rule)) {
    return JudgeThroughput(plan, gate, *rule, summary);
  }
  if (const auto* rule = std::get_if<plan::LatencyGate>(&gate.rule)) {
    return JudgeLatency(plan, gate, *rule, summary);
  }
  if (const auto* rule = std::get_if<plan::FailuresGate>(&gate.rule)) {
    return JudgeFailures(plan, gate, *rule, summary);
  }
  if (std::holds_alternative<plan::ProvenanceGate>(gate.rule)) {
    return JudgeProvenance(plan, gate, summary);
  }
  return JudgeNative(gate, {});
}

Judgement JudgeAll(const plan::ResolvedPlan& plan, std::string_view plan_yaml,
                   const evidence::SealedEvidence& evidence, const NativeResults& native) {
  const evidence::Summary& summary = evidence.summary;
  Judgement judgement;
  judgement.complete = summary.capture.complete;
  for (const std::string& incident : summary.capture.incidents) {
    judgement.incidents.push_back(Shown(incident));
  }
  if (plan::WorkloadDigest(plan) != summary.capture.workload) {
    judgement.complete = false;
    judgement.incidents.emplace_back(
        "the evidence is of another workload than the plan that judges it");
  }
  judgement.rejudged = plan_yaml != evidence.plan_yaml;
  judgement.evidence = evidence.digest;
  judgement.plan_sha256 = base::Sha256Of(plan_yaml);
  for (const plan::Gate& gate : plan.gates) {
    judgement.gates.push_back(gate.kind() == plan::GateKind::kNative
                                  ? JudgeNative(gate, native)
                                  : JudgeGate(plan, gate, summary));
  }
  for (const plan::Case& of : plan.workload.cases) {
    judgement.cases.push_back(CompareCase(plan, summary, of));
  }
  Decide(judgement);
  judgement.conditions = ConditionsOf(plan, summary, judgement);
  for (const std::string& text : plan.not_covered) judgement.not_covered.push_back(Shown(text));
  judgement.candidate_identity = IdentityOf(plan, summary, plan.candidate());
  judgement.rollback_identity = IdentityOf(plan, summary, plan.baseline());
  return judgement;
}

}  // namespace upgrade_gate::gates
