// One function a gate kind; each in the file of its name.
#pragma once

#include "framework/evidence/summary.h"
#include "framework/gates/judge.h"
#include "framework/gates/judgement.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gates {

GateResult JudgeThroughput(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                           const plan::ThroughputGate& rule, const evidence::Summary& summary);
GateResult JudgeLatency(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                        const plan::LatencyGate& rule, const evidence::Summary& summary);
GateResult JudgeFailures(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                         const plan::FailuresGate& rule, const evidence::Summary& summary);
GateResult JudgeProvenance(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                           const evidence::Summary& summary);

// The result that the gate's own test left, if it left one.
GateResult JudgeNative(const plan::Gate& gate, const NativeResults& native);

// id, kind, severity and location; inconclusive, not measured.
GateResult StartResult(const plan::Gate& gate);

}  // namespace upgrade_gate::gates
