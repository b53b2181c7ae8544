// Reading plan.yaml: strict, all errors of a file at once.
//
// The decoder refuses unknown keys, doubled keys, values of another type, wrong
// or missing units, impossible values, and documents over the caps. Only
// `true` and `false` are booleans, so `yes` and `on` are errors where one is
// wanted and plain text elsewhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "framework/base/result.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::plan {

inline constexpr std::uint64_t kMaxPlanBytes = 1 << 20;
inline constexpr int kMaxPlanDepth = 16;
inline constexpr int kMaxPlanNodes = 20'000;  // after aliases are expanded
inline constexpr int kMaxPlanErrors = 50;     // more are counted, not listed

// `file` is what error messages call the document: "gate.yaml". The error is of
// kind kUsage and holds one line an error, by position:
//   gate.yaml:14:9: unknown key "p9O" (did you mean "p90"?)
base::Result<Plan> ParsePlan(std::string_view yaml, std::string_view file);

// Merges arms, fills in defaults, resolves names, derives gate ids; its errors
// have the same form.
base::Result<ResolvedPlan> Resolve(const Plan& plan, std::string_view file);

// A plan read, resolved and digested.
struct LoadedPlan {
  std::string file;                 // as named by the user
  std::filesystem::path directory;  // relative paths of the plan start here
  std::string yaml;                 // the bytes read
  ResolvedPlan plan;
};
base::Result<LoadedPlan> LoadPlan(const std::filesystem::path& path);

// The resolved plan as JSON, stable: equal plans give equal bytes. With the
// gates, waivers and expected changes, or without them (the workload).
std::string WriteResolved(const ResolvedPlan& plan);
std::string WriteWorkload(const ResolvedPlan& plan);
// Of WriteWorkload: evidence of one workload can be judged by any plan of the same.
base::Sha256Hex WorkloadDigest(const ResolvedPlan& plan);
// "arms.candidate.executable.sha256: 3f2a… here, 91bc… there": the first
// difference between two workloads, for the message that refuses a plan.
std::string FirstDifference(std::string_view here_workload_json,
                            std::string_view there_resolved_json);

}  // namespace upgrade_gate::plan
