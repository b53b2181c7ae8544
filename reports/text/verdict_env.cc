#include <fmt/format.h>

#include <algorithm>

#include "framework/base/digest.h"
#include "framework/base/exit_code.h"
#include "reports/text/summary_text.h"

namespace upgrade_gate::text {
namespace {

// Anything that is not a digest is left out: a shell reads this file.
std::string DigestOrNothing(const base::Sha256Hex& digest) {
  return base::IsSha256Hex(digest) ? digest : "";
}

}  // namespace

std::string RenderVerdictEnv(const gates::Judgement& judgement) {
  const auto count = [&](gates::Verdict verdict, plan::Severity severity) {
    return std::count_if(judgement.gates.begin(), judgement.gates.end(), [&](const auto& gate) {
      return gate.verdict == verdict && gate.severity == severity;
    });
  };
  using gates::Verdict;
  using plan::Severity;
  return fmt::format(
      "UPGRADE_GATE_DECISION={}\n"
      "UPGRADE_GATE_EXIT_CODE={}\n"
      "UPGRADE_GATE_CANDIDATE={}\n"
      "UPGRADE_GATE_ROLLBACK={}\n"
      "UPGRADE_GATE_EVIDENCE={}\n"
      "UPGRADE_GATE_PLAN={}\n"
      "UPGRADE_GATE_ORCHESTRATION={}\n"
      "UPGRADE_GATE_REJUDGED={}\n"
      "UPGRADE_GATE_GATES_FAILED={}\n"
      "UPGRADE_GATE_GATES_INCONCLUSIVE={}\n"
      "UPGRADE_GATE_GATES_PASSED={}\n"
      "UPGRADE_GATE_ADVISORIES_NOT_PASSED={}\n",
      gates::Name(judgement.decision), static_cast<int>(gates::ExitCodeOf(judgement.decision)),
      DigestOrNothing(judgement.candidate_identity), DigestOrNothing(judgement.rollback_identity),
      DigestOrNothing(judgement.evidence), DigestOrNothing(judgement.plan_sha256),
      judgement.complete ? "complete" : "incomplete", judgement.rejudged ? "yes" : "no",
      count(Verdict::kFail, Severity::kRequired),
      count(Verdict::kInconclusive, Severity::kRequired),
      count(Verdict::kPass, Severity::kRequired),
      count(Verdict::kFail, Severity::kAdvisory) +
          count(Verdict::kInconclusive, Severity::kAdvisory));
}

std::string RenderBrokenEnv(base::ExitCode code) {
  return fmt::format(
      "UPGRADE_GATE_DECISION={}\n"
      "UPGRADE_GATE_EXIT_CODE={}\n",
      gates::Name(gates::Decision::kInconclusive), static_cast<int>(code));
}

}  // namespace upgrade_gate::text
