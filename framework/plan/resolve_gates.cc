// Ids, names and coverage of gates: a gate whose numbers the run will not
// measure is an error of the plan, never a gate that passes.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "framework/plan/resolve.h"

namespace upgrade_gate::plan {
namespace {

// The case or shape that is part of an id; empty for a gate over all cases.
std::string Selected(const Selection& selection) {
  return selection.case_name ? *selection.case_name : selection.shape.value_or("");
}

std::string DeriveId(const Gate& gate) {
  const std::string selected = Selected(gate.selection);
  if (const auto* rule = std::get_if<ThroughputGate>(&gate.rule)) {
    const char* threshold = rule->min_gain ? "min_gain" : rule->max_loss ? "max_loss" : "min";
    return fmt::format("throughput.{}.{}", selected, threshold);
  }
  if (const auto* rule = std::get_if<LatencyGate>(&gate.rule)) {
    return fmt::format("latency.{}.{}.p{}{}", selected, evidence::Name(rule->metric),
                       rule->percentile, rule->max ? ".max" : "");
  }
  if (const auto* rule = std::get_if<FailuresGate>(&gate.rule)) {
    return fmt::format("failures.{}.{}{}{}", rule->kind ? evidence::Name(*rule->kind) : "any",
                       rule->arm, selected.empty() ? "" : ".", selected);
  }
  return "provenance";  // a native gate always has its name
}

bool IsRelative(const Gate& gate) {
  if (const auto* rule = std::get_if<ThroughputGate>(&gate.rule)) return !rule->min;
  if (const auto* rule = std::get_if<LatencyGate>(&gate.rule)) return !rule->max;
  return false;
}

class GateResolver {
 public:
  GateResolver(const Plan& plan, const ResolvedPlan& resolved, const Incomplete& incomplete,
               Errors& errors)
      : plan_(plan), resolved_(resolved), incomplete_(incomplete), errors_(errors) {}

  Gate Run(std::size_t index) {
    Gate gate = plan_.gates[index];
    path_ = fmt::format("gates[{}]", index);
    if (auto* rule = std::get_if<FailuresGate>(&gate.rule)) ResolveArm(gate, rule);
    const bool known = CheckSelection(gate);
    if (gate.id.empty()) gate.id = DeriveId(gate);
    if (gate.kind() == GateKind::kProvenance || gate.kind() == GateKind::kNative) return gate;

    std::vector<const Arm*> measured;
    if (const auto* rule = std::get_if<FailuresGate>(&gate.rule)) {
      measured.push_back(resolved_.FindArm(rule->arm));
    } else {
      measured.push_back(resolved_.candidate());
    }
    if (IsRelative(gate)) {
      if (resolved_.baseline() == nullptr && !incomplete_.arm_names) {
        errors_.Add(gate.location,
                    "this gate compares with a baseline, and the plan has none: add the arm "
                    "baseline, or write an absolute threshold (min, max)");
      }
      measured.push_back(resolved_.baseline());
    }
    if (known && !incomplete_.order) {
      for (const Arm* arm : measured) {
        if (arm != nullptr) CheckCoverage(gate, *arm);
      }
    }
    return gate;
  }

 private:
  Location Place(const std::string& key, const Gate& gate) const {
    return PlaceOf(plan_, path_ + "." + key, gate.location);
  }

  void ResolveArm(const Gate& gate, FailuresGate* rule) {
    if (rule->arm.empty()) {
      if (resolved_.candidate() != nullptr) rule->arm = resolved_.candidate()->name;
      return;
    }
    if (resolved_.FindArm(rule->arm) != nullptr || incomplete_.arm_names) return;
    std::vector<std::string> names;
    for (const Arm& arm : resolved_.arms) names.push_back(arm.name);
    errors_.Add(Place("arm", gate),
                fmt::format("unknown arm {}{}", Quoted(rule->arm), DidYouMean(rule->arm, names)));
  }

  // False if the cases of the gate cannot be told.
  bool CheckSelection(const Gate& gate) {
    if (incomplete_.case_names) return false;
    if (!resolved_.Select(gate.selection).empty()) return true;
    const bool by_case = gate.selection.case_name.has_value();
    const char* key = by_case ? "case" : "shape";
    std::vector<std::string> names;
    for (const Case& c : resolved_.workload.cases) {
      const std::string& name = by_case ? c.name : c.shape;
      if (!name.empty()) names.push_back(name);
    }
    const std::string wanted = Selected(gate.selection);
    errors_.Add(Place(key, gate),
                fmt::format("unknown {} {}{}", key, Quoted(wanted), DidYouMean(wanted, names)));
    return false;
  }

  void CheckCoverage(const Gate& gate, const Arm& arm) {
    std::set<std::string> run;
    for (const BootStep& step : resolved_.order) {
      if (step.arm == arm.name) run.insert(step.cases.begin(), step.cases.end());
    }
    // An arm that is never booted has its own error.
    if (run.empty()) return;
    // A failures gate without a selection is about whatever its arm runs.
    if (!gate.selection.case_name && !gate.selection.shape) return;
    for (const Case* c : resolved_.Select(gate.selection)) {
      if (run.contains(c->name)) continue;
      errors_.Add(gate.location,
                  fmt::format("this gate needs the case {} of the arm {}, and no step of \"order\" "
                              "runs it there",
                              Quoted(c->name), Quoted(arm.name)));
    }
  }

  const Plan& plan_;
  const ResolvedPlan& resolved_;
  const Incomplete& incomplete_;
  Errors& errors_;
  std::string path_;
};

}  // namespace

std::vector<Gate> ResolveGates(const Plan& plan, const ResolvedPlan& resolved,
                               const Incomplete& incomplete, Errors& errors) {
  std::vector<Gate> gates;
  std::vector<PlacedName> ids;
  GateResolver resolver(plan, resolved, incomplete, errors);
  for (std::size_t i = 0; i < plan.gates.size(); ++i) {
    gates.push_back(resolver.Run(i));
    ids.push_back(
        {gates.back().id, PlaceOf(plan, fmt::format("gates[{}].name", i), gates.back().location)});
  }
  RefuseDoubles("gate", ids, errors);
  if (incomplete.gates) return gates;
  const Location at = PlaceOf(plan, "gates", {});
  if (gates.empty()) {
    errors.Add(at, "\"gates\" is empty: a plan without gates can never say no");
  } else if (std::all_of(gates.begin(), gates.end(),
                         [](const Gate& g) { return g.severity == Severity::kAdvisory; })) {
    errors.Add(at,
               "all gates are advisory, and only a required gate can reject: make one required");
  }
  return gates;
}

}  // namespace upgrade_gate::plan
