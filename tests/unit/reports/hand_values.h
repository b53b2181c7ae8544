// A small run by hand: three cases of the vLLM 0.32.0 upgrade report, two of
// them as measured there, and an attribution arm.
#pragma once

#include "framework/evidence/summary.h"
#include "framework/gates/judgement.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::reports_test {

plan::ResolvedPlan HandPlan();
evidence::Summary HandSummary();
gates::Judgement HandJudgement();

// Bytes that act on a terminal, an XML parser or a CI system.
extern const char* const kHostile;

// True where `name` holds exactly `actual`; otherwise writes `actual` to a
// temporary file and says where.
void ExpectGolden(const std::string& name, const std::string& actual);

}  // namespace upgrade_gate::reports_test
