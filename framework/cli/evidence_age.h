// How old evidence may be.
#pragma once

#include <string>

#include "framework/base/result.h"
#include "framework/evidence/records.h"

namespace upgrade_gate::cli {

// `max_age` as given: "90min", "36h", "7d". kEvidence if the evidence was sealed
// longer ago, or in the future.
base::Status CheckAge(const evidence::CaptureRecord& capture, const std::string& max_age);

}  // namespace upgrade_gate::cli
