// The terminal summary: a table a case, then gates, then the decision and where
// everything lies. Also the explanation of one gate.
#pragma once

#include <filesystem>
#include <string>

#include "framework/evidence/store.h"
#include "framework/gates/judgement.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::text {

enum class Color { kNever, kAlways };

struct TextOptions {
  Color color = Color::kNever;
  std::filesystem::path run;  // shown as where things lie
  std::string plan_file;      // as the user named it
};

std::string RenderSummary(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                          const gates::Judgement& judgement, const TextOptions& options);

std::string RenderExplanation(const gates::GateResult& gate, const TextOptions& options);

// verdict.env for the next stage of a pipeline: KEY=value lines, safe to source.
std::string RenderVerdictEnv(const gates::Judgement& judgement);
// The same where there is no verdict, or none that counts: inconclusive.
std::string RenderBrokenEnv(base::ExitCode code);

}  // namespace upgrade_gate::text
