// What judge, explain and report share: sealed evidence, the plan that judges,
// and the judgement.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "framework/base/result.h"
#include "framework/cli/fragments.h"
#include "framework/evidence/store.h"
#include "framework/gates/judgement.h"
#include "framework/plan/plan_file.h"

namespace upgrade_gate::cli {

struct JudgedRun {
  evidence::Layout layout;
  plan::LoadedPlan plan;
  evidence::SealedEvidence evidence;
  gates::Judgement judgement;
  Fragments fragments;
};

// `plan`: judge by this one; absent: by the one that was captured. A plan of
// another workload is refused, naming the first difference.
base::Result<JudgedRun> LoadAndJudge(const std::filesystem::path& run,
                                     const std::optional<std::filesystem::path>& plan);

// kEvidence, naming the first difference, unless both are one workload.
base::Status CheckWorkload(const plan::LoadedPlan& plan, const evidence::SealedEvidence& evidence);

// Writes judgement/ anew: verdict.json, a fragment a gate, and the seal.
base::Status WriteJudgementFolder(const JudgedRun& run);

}  // namespace upgrade_gate::cli
