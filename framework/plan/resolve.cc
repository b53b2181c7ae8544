#include "framework/plan/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace upgrade_gate::plan {
namespace {

std::vector<std::string> CaseNames(const Plan& plan) {
  std::vector<std::string> names;
  for (const Case& c : plan.workload.cases) names.push_back(c.name);
  return names;
}

std::vector<std::string> ArmNames(const Plan& plan) {
  std::vector<std::string> names;
  for (const ArmOverlay& arm : plan.arms) names.push_back(arm.name);
  return names;
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void CheckRoles(const Plan& plan, const std::vector<Arm>& arms, const Incomplete& incomplete,
                Errors& errors) {
  for (const ArmRole role : {ArmRole::kCandidate, ArmRole::kBaseline}) {
    const Arm* first = nullptr;
    for (const Arm& arm : arms) {
      if (arm.role != role) continue;
      if (first == nullptr) {
        first = &arm;
      } else {
        errors.Add(arm.location, fmt::format("a plan has one {}; the arm {} is it already",
                                             Name(role), Quoted(first->name)));
      }
    }
    if (first == nullptr && role == ArmRole::kCandidate && !incomplete.arm_names) {
      errors.Add(PlaceOf(plan, "arms", {}), "no arm is the candidate: name one \"candidate\"");
    }
  }
}

// An absent `order`: the baseline, the candidate, then the others as written.
std::vector<BootStep> DefaultOrder(const std::vector<Arm>& arms) {
  std::vector<BootStep> order;
  for (const ArmRole role : {ArmRole::kBaseline, ArmRole::kCandidate, ArmRole::kAttribution}) {
    for (const Arm& arm : arms) {
      if (arm.role == role) order.push_back({arm.name, arm.location, {}, 0});
    }
  }
  return order;
}

void CheckStep(const Plan& plan, std::size_t index, const Incomplete& incomplete, Errors& errors) {
  const BootStep& step = plan.order[index];
  const std::string path = fmt::format("order[{}]", index);
  const std::vector<std::string> arms = ArmNames(plan);
  if (!incomplete.arm_names && !step.arm.empty() && !Contains(arms, step.arm)) {
    errors.Add(PlaceOf(plan, path + ".arm", step.location),
               fmt::format("unknown arm {}{}", Quoted(step.arm), DidYouMean(step.arm, arms)));
  }
  const std::vector<std::string> cases = CaseNames(plan);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < step.cases.size(); ++i) {
    const std::string& name = step.cases[i];
    const Location at = PlaceOf(plan, fmt::format("{}.cases[{}]", path, i), step.location);
    if (!incomplete.case_names && !Contains(cases, name)) {
      errors.Add(at, fmt::format("unknown case {}{}", Quoted(name), DidYouMean(name, cases)));
    } else if (!seen.insert(name).second) {
      errors.Add(at, fmt::format("the case {} stands twice in this step", Quoted(name)));
    }
  }
}

std::vector<BootStep> ResolveOrder(const Plan& plan, const std::vector<Arm>& arms,
                                   const Incomplete& incomplete, Errors& errors) {
  for (std::size_t i = 0; i < plan.order.size(); ++i) CheckStep(plan, i, incomplete, errors);
  std::vector<BootStep> order = plan.order.empty() ? DefaultOrder(arms) : plan.order;
  std::set<std::string> booted;
  std::set<std::string> run;
  for (BootStep& step : order) {
    if (step.cases.empty()) step.cases = CaseNames(plan);
    if (step.rounds == 0) step.rounds = plan.workload.rounds;
    booted.insert(step.arm);
    run.insert(step.cases.begin(), step.cases.end());
  }
  if (incomplete.order) return order;
  for (const Arm& arm : arms) {
    if (!booted.contains(arm.name)) {
      errors.Add(arm.location, fmt::format("the arm {} is never booted: add it to \"order\", or "
                                           "remove it",
                                           Quoted(arm.name)));
    }
  }
  for (const Case& c : plan.workload.cases) {
    if (!c.name.empty() && !run.contains(c.name)) {
      errors.Add(c.location, fmt::format("the case {} is never run: no step of \"order\" names it",
                                         Quoted(c.name)));
    }
  }
  return order;
}

}  // namespace

Location PlaceOf(const Plan& plan, const std::string& path, Location otherwise) {
  const auto it = plan.locations.find(path);
  return it == plan.locations.end() ? otherwise : it->second;
}

void RefuseDoubles(std::string_view what, const std::vector<PlacedName>& names, Errors& errors) {
  std::map<std::string, const PlacedName*> seen;
  for (const PlacedName& placed : names) {
    if (placed.name.empty()) continue;
    std::string folded = placed.name;
    std::transform(folded.begin(), folded.end(), folded.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const auto [it, is_new] = seen.emplace(std::move(folded), &placed);
    if (is_new) continue;
    const PlacedName& first = *it->second;
    const std::string where =
        first.at.line > 0 ? fmt::format(", at {}:{}", first.at.line, first.at.column) : "";
    if (first.name == placed.name) {
      errors.Add(placed.at,
                 fmt::format("the {} {} is there already{}", what, Quoted(placed.name), where));
    } else {
      errors.Add(placed.at, fmt::format("the {} {} differs only in letter case from {}{}: they "
                                        "would be one folder on some disks",
                                        what, Quoted(placed.name), Quoted(first.name), where));
    }
  }
}

ResolvedPlan ResolvePlan(const Plan& plan, const Incomplete& incomplete, Errors& errors) {
  ResolvedPlan resolved;
  resolved.name = plan.name;
  resolved.model = plan.model;
  resolved.server = plan.server;
  resolved.server.command.clear();
  resolved.server.env.clear();
  resolved.boot_noise = plan.boot_noise;
  resolved.deadline = plan.deadline;
  resolved.workload = plan.workload;
  resolved.expected_changes = plan.expected_changes;
  resolved.not_covered = plan.not_covered;

  std::vector<PlacedName> arms;
  for (const ArmOverlay& arm : plan.arms) arms.push_back({arm.name, arm.location});
  RefuseDoubles("arm", arms, errors);
  std::vector<PlacedName> cases;
  for (std::size_t i = 0; i < plan.workload.cases.size(); ++i) {
    const Case& c = plan.workload.cases[i];
    const std::string path = fmt::format("workload.cases[{}].name", i);
    cases.push_back({c.name, PlaceOf(plan, path, c.location)});
  }
  RefuseDoubles("case", cases, errors);

  resolved.arms = ResolveArms(plan, incomplete, errors);
  CheckRoles(plan, resolved.arms, incomplete, errors);
  resolved.order = ResolveOrder(plan, resolved.arms, incomplete, errors);
  resolved.gates = ResolveGates(plan, resolved, incomplete, errors);
  return resolved;
}

}  // namespace upgrade_gate::plan
