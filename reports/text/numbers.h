// Numbers as people read them. No locale; an absent or non-finite value is "–".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/evidence/summary.h"
#include "framework/gates/judgement.h"

namespace upgrade_gate::text {

// The middle value, or the mean of the middle two; absent for no values.
std::optional<double> Median(std::vector<double> values);

// "115.00", "1,830.4": tokens a second.
std::string ShowThroughput(std::optional<double> tokens_per_s);
// "63.28 ms", "5.826 s"
std::string ShowMilliseconds(std::optional<double> ms);
// "0.61 %"; "–" for no requests.
std::string ShowShare(int part, int whole);
// "6/984"
std::string ShowCount(int part, int whole);
// "0.9886", "1830": four significant digits.
std::string ShowNumber(double value);
// "2.230× [2.19, 2.27]": a third decimal below 2, where it decides something.
std::string ShowRatio(double estimate, const std::optional<gates::Interval>& interval);

// One arm of one case: medians over its rounds.
struct ArmNumbers {
  int rounds = 0;  // 0: not run
  std::optional<double> tokens_per_s;
  evidence::FailureCounts counts;

  // The median over the rounds that have the percentile.
  std::optional<double> Percentile(evidence::Metric metric, int percentile) const;
  const evidence::ArmRounds* source = nullptr;
};
ArmNumbers NumbersOf(const evidence::CaseSummary* of, const std::string& arm);

// What a P95 of these arms really is: "max of 16" for fewer than 20 values a
// round, where nearest rank picks the largest; "P95 of 64" otherwise.
std::string DescribeP95(const std::vector<const ArmNumbers*>& arms);

}  // namespace upgrade_gate::text
