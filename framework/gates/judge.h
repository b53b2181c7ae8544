// The gates: pure functions of a plan and sealed evidence. No clock, no files,
// no network: the same inputs always give the same judgement.
#pragma once

#include <string>
#include <string_view>

#include "framework/base/result.h"
#include "framework/evidence/store.h"
#include "framework/gates/judgement.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gates {

// One gate; one file a kind: throughput.cc, latency.cc, failures.cc, provenance.cc.
GateResult JudgeGate(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                     const evidence::Summary& summary);

// All gates and the decision over the required ones: reject if any fails,
// inconclusive if any is, accept otherwise. An incomplete orchestration is never
// accepted. `plan_yaml` are the bytes of the plan that judges: where they are not
// those of the evidence, the judgement is marked re-judged.
Judgement JudgeAll(const plan::ResolvedPlan& plan, std::string_view plan_yaml,
                   const evidence::SealedEvidence& evidence);

// The judgement as `judge --format json` prints it (schema 1). Numbers are JSON
// numbers, absent is null, never NaN. `explanation` is in the gates' fragments only.
std::string WriteJudgement(const Judgement& judgement, const evidence::Summary& summary);
// A gate's result fragment, and what a merger needs of one.
std::string WriteFragment(const GateResult& result, const base::Sha256Hex& evidence);
struct Fragment {
  std::string id;
  Verdict verdict = Verdict::kInconclusive;
  std::string message;
  base::Sha256Hex evidence;
};
base::Result<Fragment> ReadFragment(std::string_view json);

}  // namespace upgrade_gate::gates
