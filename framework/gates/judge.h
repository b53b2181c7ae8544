// The gates: pure functions of a plan and sealed evidence. No clock, no files,
// no network: the same inputs always give the same judgement.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "framework/base/result.h"
#include "framework/evidence/store.h"
#include "framework/gates/judgement.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gates {

// What the tests of native gates left, by the gate's id. They are code, so nobody
// can judge them anew: a native gate without a result is inconclusive.
using NativeResults = std::map<std::string, GateResult>;

// One gate; one file a kind: throughput.cc, latency.cc, failures.cc, provenance.cc.
// A native gate has no result here: its test gives one.
GateResult JudgeGate(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                     const evidence::Summary& summary);

// All gates and the decision over the required ones: reject if any fails,
// inconclusive if any is, accept otherwise. An incomplete orchestration is never
// accepted. `plan_yaml` are the bytes of the plan that judges: where they are not
// those of the evidence, the judgement is marked re-judged.
Judgement JudgeAll(const plan::ResolvedPlan& plan, std::string_view plan_yaml,
                   const evidence::SealedEvidence& evidence, const NativeResults& native = {});

// The judgement as `judge --format json` prints it (schema 1). Numbers are JSON
// numbers, absent is null, never NaN. `explanation` is in the gates' fragments only.
std::string WriteJudgement(const Judgement& judgement, const evidence::Summary& summary);

// A gate's result as a file of its own: what its test leaves, and what the report merges.
struct Fragment {
  GateResult result;         // of its location the line only
  base::Sha256Hex evidence;  // digest of the evidence that was judged
  base::Sha256Hex plan;      // of the plan file that judged it
};
std::string WriteFragment(const Fragment& fragment);
// Hostile text: capped, strict, every number finite. kEvidence errors name the member.
base::Result<Fragment> ReadFragment(std::string_view json);

}  // namespace upgrade_gate::gates
