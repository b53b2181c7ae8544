// The terminal page of an ad-hoc load test: numbers with their definitions,
// failures with their denominator, the client's own part, the conditions.
#pragma once

#include <string>
#include <vector>

#include "framework/evidence/load_numbers.h"
#include "framework/gates/fail_if.h"
#include "reports/text/summary_text.h"

namespace upgrade_gate::text {

struct LoadPage {
  std::string url;         // that the requests were sent to
  std::string model;       // served name
  std::string load;        // "8 requests in flight, 3 rounds of 64 requests"
  std::string input;       // "1,024 input tokens, synthetic token ids, seed 7"
  std::string output;      // "256 output tokens"
  std::string started_at;  // UTC
  // Empty: complete. Otherwise why not, and what of it was measured.
  std::string incomplete;
  evidence::LoadNumbers numbers;
  std::vector<gates::FailIfResult> conditions;
  gates::Decision decision = gates::Decision::kInconclusive;
  std::string reason;  // of the decision
};

std::string RenderLoad(const LoadPage& page, Color color);

}  // namespace upgrade_gate::text
