// Where two JSON values differ first, in words. Private.
#pragma once

#include <string>

#include "framework/base/json.h"

namespace upgrade_gate::evidence {

// "cases[8k-256-c8].arms.baseline.rounds[boot 1, round 2].output_tokens is 512,
// recomputed 480"; empty where they are equal. An element of a list is named by
// its "name", its "boot" and "round" or its "number", and by its position
// otherwise.
std::string FirstDifference(const base::Json& sealed, const base::Json& recomputed);

}  // namespace upgrade_gate::evidence
