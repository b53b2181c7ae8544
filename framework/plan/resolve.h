// Plan → ResolvedPlan: overlays merged, names looked up, ids derived. The
// checks need more than one section, so they are here and not in the decoder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/plan/decode.h"
#include "framework/plan/errors.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::plan {

// What comes out after errors were added is not to be used.
ResolvedPlan ResolvePlan(const Plan& plan, const Incomplete& incomplete, Errors& errors);

// The place of a value, or where the file does not say it, of what it belongs to.
Location PlaceOf(const Plan& plan, const std::string& path, Location otherwise);

// The arms in the plan's order, merged; `incomplete.commands` leaves their
// commands unchecked.
std::vector<Arm> ResolveArms(const Plan& plan, const Incomplete& incomplete, Errors& errors);

// Gates with ids, arms and coverage checked against the rest of `resolved`.
std::vector<Gate> ResolveGates(const Plan& plan, const ResolvedPlan& resolved,
                               const Incomplete& incomplete, Errors& errors);

// Adds an error for names that are equal, or differ only in the case of letters:
// they become names of folders and files. `what` is "arm"; `names` have places.
struct PlacedName {
  std::string name;
  Location at;
};
void RefuseDoubles(std::string_view what, const std::vector<PlacedName>& names, Errors& errors);

}  // namespace upgrade_gate::plan
