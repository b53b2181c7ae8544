#include <fmt/format.h>

#include <cstdio>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/cli/commands.h"
#include "framework/plan/plan_file.h"
#include "framework/server/log_rules.h"

namespace upgrade_gate::cli {

using base::ExitCode;
using base::Result;

Result<ExitCode> CheckPlan(const PlanOptions& options) {
  UG_ASSIGN(const plan::LoadedPlan loaded, plan::LoadPlan(options.plan));
  const plan::ResolvedPlan& plan = loaded.plan;
  UG_TRY(server::LogRules::Load(plan.server.log_rules, loaded.directory));
  int rounds = 0;
  std::int64_t requests = 0;
  for (const plan::BootStep& step : plan.order) {
    for (const std::string& name : step.cases) {
      rounds += step.rounds;
      requests += static_cast<std::int64_t>(step.rounds) * plan.FindCase(name)->requests;
    }
  }
  fmt::print("{}: ok: {} arms, {} boots, {} cases, {} rounds, {} formal requests, {} gates\n",
             loaded.file, plan.arms.size(), plan.order.size(), plan.workload.cases.size(), rounds,
             base::WithThousands(requests), plan.gates.size());
  fmt::print("workload sha256:{}\n", plan::WorkloadDigest(plan));
  return ExitCode::kAccept;
}

Result<ExitCode> ShowPlan(const PlanOptions& options) {
  UG_ASSIGN(const plan::LoadedPlan loaded, plan::LoadPlan(options.plan));
  fmt::print("{}", plan::WriteResolved(loaded.plan));
  return ExitCode::kAccept;
}

}  // namespace upgrade_gate::cli
