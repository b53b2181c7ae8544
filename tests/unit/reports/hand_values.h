// A small run by hand: three cases of the vLLM 0.32.0 upgrade report, two of
// them as measured there, and an attribution arm.
#pragma once

#include <string>
#include <vector>

#include "framework/evidence/summary.h"
#include "framework/gates/judgement.h"
#include "framework/plan/plan.h"
#include "reports/junit/junit.h"
#include "tests/support/golden_text.h"

namespace upgrade_gate::reports_test {

plan::ResolvedPlan HandPlan();
evidence::Summary HandSummary();
gates::Judgement HandJudgement();

// Bytes that act on a terminal, an XML parser or a CI system.
extern const char* const kHostile;
// Each attacks in one way: illegal characters, broken UTF-8, markup, commands, size.
const std::vector<std::string>& HostileTexts();

// Everything of a JUnit report that a person, a server or a file can name.
struct JunitInput {
  plan::ResolvedPlan plan = HandPlan();
  evidence::Summary summary = HandSummary();
  gates::Judgement judgement = HandJudgement();
  std::vector<std::string> missing;
  junit::JunitOptions options;
};
// All of it is `text`.
JunitInput HostileInput(const std::string& text);
// Every gate passes.
gates::Judgement AcceptedJudgement();

using test_support::ExpectGolden;

}  // namespace upgrade_gate::reports_test
