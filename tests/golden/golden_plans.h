// The experiments behind the golden cases: a plan, and numbers for each round.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace upgrade_gate::golden {

// What one arm did in one case, a value a round.
struct ArmNumbers {
  std::vector<double> tokens_per_s;  // successful tokens / the round's whole duration
  std::vector<int> empty;            // requests without text; shorter than the rounds: none
  double ttft_ms = 100;
};

struct CaseNumbers {
  std::string name;
  ArmNumbers baseline;
  ArmNumbers candidate;
};

struct Golden {
  std::string name;  // of the folder
  std::string plan;  // plan.yaml
  std::vector<CaseNumbers> cases;
};

std::vector<Golden> AllGolden();

}  // namespace upgrade_gate::golden
