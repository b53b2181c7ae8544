#include <fmt/format.h>

#include <cstdio>

#include "framework/base/file.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/cli/commands.h"
#include "framework/cli/evidence_age.h"
#include "framework/cli/failing_report.h"
#include "framework/cli/judged_run.h"
#include "framework/evidence/store.h"

namespace upgrade_gate::cli {
namespace {

using base::ExitCode;
using base::Json;
using base::Result;

// A judgement beside the evidence must be whole as well; it may be absent.
Result<std::vector<evidence::SealFinding>> CheckJudgement(const evidence::Layout& layout) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(layout.judgement(), error))) {
    return std::vector<evidence::SealFinding>{};
  }
  UG_ASSIGN(evidence::SealCheck check, evidence::CheckSeal(layout.judgement()));
  for (evidence::SealFinding& finding : check.findings) finding.file = "judgement/" + finding.file;
  return std::move(check.findings);
}

Result<ExitCode> Verify(const VerifyOptions& options, const evidence::Layout& layout) {
  if (options.begin_report) {
    junit::JunitOptions junit_options;
    junit_options.suite_name = "upgrade-gate";
    if (options.plan) junit_options.plan_file = options.plan->string();
    UG_TRY(
        WriteFailingReport(layout, junit_options,
                           {base::ErrorKind::kNothingRan, "the gates have not been judged yet"}));
  }
  UG_ASSIGN(evidence::Verification verification, evidence::VerifyEvidence(layout));
  for (evidence::SealFinding& finding : verification.findings) {
    finding.file = "evidence/" + finding.file;
  }
  UG_ASSIGN(const auto judgement_findings, CheckJudgement(layout));
  verification.findings.insert(verification.findings.end(), judgement_findings.begin(),
                               judgement_findings.end());

  verification.not_checked.emplace_back("signature: this version seals and does not sign");
  if (options.format == Format::kJson) {
    Json findings = Json::array();
    for (const auto& finding : verification.findings) {
      findings.push_back({{"file", finding.file}, {"problem", finding.problem}});
    }
    fmt::print("{}", base::WriteJson({{"schema", 1},
                                      {"ok", verification.ok()},
                                      {"findings", findings},
                                      {"not_checked", verification.not_checked}}));
  } else {
    for (const auto& finding : verification.findings) {
      fmt::print("{}\n", base::NeutralizeCommands(base::Visible(finding.file) + ": " +
                                                  base::Visible(finding.problem)));
    }
    fmt::print("{}: {}\n", layout.run().string(),
               verification.ok() ? "whole, sha256:" + verification.digest : "NOT as it was sealed");
    for (const std::string& what : verification.not_checked) fmt::print("not checked: {}\n", what);
  }
  if (!verification.ok()) {
    return base::EvidenceError(fmt::format("{}: {} of its files are not as they were sealed",
                                           layout.run().string(), verification.findings.size()));
  }
  UG_ASSIGN(const evidence::SealedEvidence evidence, evidence::LoadSealed(layout));
  if (options.plan) {
    UG_ASSIGN(const plan::LoadedPlan plan, plan::LoadPlan(*options.plan));
    UG_TRY(CheckWorkload(plan, evidence));
  }
  if (options.max_age) UG_TRY(CheckAge(evidence.summary.capture, *options.max_age));
  return ExitCode::kAccept;
}

}  // namespace

Result<ExitCode> VerifyRun(const VerifyOptions& options) {
  const evidence::Layout layout(options.run);
  const Result<ExitCode> result = Verify(options, layout);
  // No gate will be judged after this: what an earlier one left is not of this report.
  if (options.begin_report && !result) UG_TRY(base::RemoveAll(layout.fragments()));
  return result;
}

}  // namespace upgrade_gate::cli
