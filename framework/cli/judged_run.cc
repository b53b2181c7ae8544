#include "framework/cli/judged_run.h"

#include <fmt/format.h>

#include "framework/base/file.h"
#include "framework/evidence/seal.h"
#include "framework/gates/judge.h"

namespace upgrade_gate::cli {
namespace {

// The plan that stands in the evidence.
base::Result<plan::LoadedPlan> CapturedPlan(const evidence::Layout& layout,
                                            const evidence::SealedEvidence& evidence) {
  plan::LoadedPlan loaded;
  loaded.file = layout.plan().string();
  loaded.directory = layout.evidence();
  loaded.yaml = evidence.plan_yaml;
  UG_ASSIGN(const plan::Plan parsed, plan::ParsePlan(evidence.plan_yaml, loaded.file));
  UG_ASSIGN(loaded.plan, plan::Resolve(parsed, loaded.file));
  return loaded;
}

}  // namespace

base::Status CheckWorkload(const plan::LoadedPlan& plan, const evidence::SealedEvidence& evidence) {
  if (plan::WorkloadDigest(plan.plan) == evidence.summary.capture.workload) return {};
  return base::EvidenceError(fmt::format(
      "{}: its workload is not the one that was measured: {}; only gates, waivers and expected "
      "changes "
      "may differ; capture anew to judge this plan",
      plan.file, plan::FirstDifference(plan::WriteWorkload(plan.plan), evidence.resolved_plan)));
}

base::Result<JudgedRun> LoadAndJudge(const std::filesystem::path& run,
                                     const std::optional<std::filesystem::path>& plan_path) {
  JudgedRun judged{.layout = evidence::Layout(run),
                   .plan = {},
                   .evidence = {},
                   .judgement = {},
                   .fragments = {}};
  UG_ASSIGN(judged.evidence, evidence::LoadSealed(judged.layout));
  UG_ASSIGN(judged.plan,
            plan_path ? plan::LoadPlan(*plan_path) : CapturedPlan(judged.layout, judged.evidence));
  UG_TRY(CheckWorkload(judged.plan, judged.evidence));
  judged.fragments = ReadFragments(judged.layout, judged.plan.plan, judged.evidence.digest,
                                   base::Sha256Of(judged.plan.yaml));
  judged.judgement = gates::JudgeAll(judged.plan.plan, judged.plan.yaml, judged.evidence,
                                     judged.fragments.results);
  CompareVerdicts(judged.judgement, judged.fragments);
  return judged;
}

base::Status WriteJudgementFolder(const JudgedRun& run) {
  const std::filesystem::path aside = run.layout.run() / ".judgement.writing";
  UG_TRY(base::RemoveAll(aside));
  UG_TRY(base::CreateDirectories(aside / "gates"));
  UG_TRY(base::WriteFile(aside / "plan.yaml", run.plan.yaml));
  UG_TRY(base::WriteFile(aside / "verdict.json",
                         gates::WriteJudgement(run.judgement, run.evidence.summary)));
  for (const gates::GateResult& gate : run.judgement.gates) {
    UG_TRY(base::WriteFile(
        aside / "gates" / (gate.id + ".json"),
        gates::WriteFragment({gate, run.evidence.digest, run.judgement.plan_sha256})));
  }
  UG_ASSIGN(const base::Sha256Hex digest, evidence::Seal(aside));
  static_cast<void>(digest);
  UG_TRY(base::RemoveAll(run.layout.judgement()));
  return base::RenameDirectory(aside, run.layout.judgement());
}

}  // namespace upgrade_gate::cli
