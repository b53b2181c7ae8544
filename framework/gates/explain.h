// The long form of a gate's verdict: numbers, formula, threshold, what to do.
#pragma once

#include <string>
#include <vector>

#include "framework/gates/comparison.h"
#include "framework/stats/estimate.h"

namespace upgrade_gate::gates {

struct Explained {
  const plan::ResolvedPlan& plan;
  const plan::Case& of;
  const Quantity& quantity;
  const Threshold& threshold;
  std::vector<const Series*> arms;  // baseline first; the candidate alone for a level
  const stats::Estimate& estimate;  // empty where none was made
  const CaseResult& result;
};

std::vector<std::string> Explain(const Explained& explained);

// "about 7 rounds would resolve it at the noise seen": for an undecided estimate.
std::string HowToResolve(const stats::Estimate& estimate, double limit);
// "90 % interval, 3 rounds, 1 boot an arm, boot noise 1 % assumed"
std::string Basis(const stats::Estimate& estimate);
// |ln ratio| > ln 1.25: suspect first.
bool IsBig(double ratio);
// Where the failed requests of an arm lie: "rounds/<case>/02-candidate-r1/streams/".
std::vector<std::string> FailurePaths(const std::string& case_name, const Series& series);
// "empty_output 6"; "none"
std::string KindsText(const evidence::FailureCounts& counts);

}  // namespace upgrade_gate::gates
