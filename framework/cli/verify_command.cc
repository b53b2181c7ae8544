#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>

#include "framework/base/clock.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/cli/commands.h"
#include "framework/cli/judged_run.h"
#include "framework/evidence/store.h"

namespace upgrade_gate::cli {
namespace {

using base::ExitCode;
using base::Json;
using base::Result;

Result<std::chrono::seconds> ParseAge(const std::string& text) {
  std::int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  const std::string unit(rest, end);
  const std::int64_t seconds = unit == "s"     ? 1
                               : unit == "min" ? 60
                               : unit == "h"   ? 3600
                               : unit == "d"   ? 86400
                                               : 0;
  constexpr std::int64_t kMost = 100'000;
  if (error != std::errc() || count < 1 || count > kMost || seconds == 0) {
    return base::UsageError("--max-age: \"" + base::Visible(text) +
                            "\" is not an age: write 90min, 36h or 7d");
  }
  return std::chrono::seconds(count * seconds);
}

base::Status CheckAge(const evidence::CaptureRecord& capture, const std::string& max_age) {
  UG_ASSIGN(const std::chrono::seconds most, ParseAge(max_age));
  base::WallTime sealed;
  if (!base::ParseUtc(capture.sealed_at, sealed)) {
    return base::EvidenceError("capture.json: \"sealed_at\" is not a time");
  }
  const auto age = base::SystemClock().wall() - sealed;
  if (age <= most) return {};
  return base::EvidenceError(fmt::format("sealed at {}, {:.1f} h ago: older than {}; capture anew",
                                         capture.sealed_at,
                                         std::chrono::duration<double, std::ratio<3600>>(age).count(),
                                         max_age));
}

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

}  // namespace

Result<ExitCode> VerifyRun(const VerifyOptions& options) {
  const evidence::Layout layout(options.run);
  UG_ASSIGN(evidence::Verification verification, evidence::VerifyEvidence(layout));
  for (evidence::SealFinding& finding : verification.findings) {
    finding.file = "evidence/" + finding.file;
  }
  UG_ASSIGN(const auto judgement_findings, CheckJudgement(layout));
  verification.findings.insert(verification.findings.end(), judgement_findings.begin(),
                               judgement_findings.end());

  const std::string not_checked = "signature: this version seals and does not sign";
  if (options.format == Format::kJson) {
    Json findings = Json::array();
    for (const auto& finding : verification.findings) {
      findings.push_back({{"file", finding.file}, {"problem", finding.problem}});
    }
    fmt::print("{}", base::WriteJson({{"schema", 1},
                                      {"ok", verification.ok()},
                                      {"findings", findings},
                                      {"not_checked", {not_checked}}}));
  } else {
    for (const auto& finding : verification.findings) {
      fmt::print("{}: {}\n", base::Visible(finding.file), base::Visible(finding.problem));
    }
    fmt::print("{}: {}\nnot checked: {}\n", layout.run().string(),
               verification.ok() ? "whole, sha256:" + verification.digest : "NOT as it was sealed",
               not_checked);
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

}  // namespace upgrade_gate::cli
