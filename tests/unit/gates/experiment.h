// A plan of two arms and evidence of it, made from numbers, for gate tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/evidence/store.h"
#include "framework/gates/judge.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gates {

inline constexpr const char* kBaseline = "baseline";
inline constexpr const char* kCandidate = "candidate";

// One character sixty-four times: a digest that is easy to tell apart.
base::Sha256Hex Digest(char c);

// Plain values, changed by each test as it needs.
struct Experiment {
  plan::ResolvedPlan plan;
  evidence::SealedEvidence evidence;

  evidence::Summary& summary() { return evidence.summary; }
  evidence::ArmRounds& At(const std::string& case_name, const std::string& arm);
  evidence::RoundSummary& Round(const std::string& case_name, const std::string& arm, int index);
  evidence::BootRecord& Boot(int number);
};

// Boot 1 is the baseline's, boot 2 the candidate's; every case has 8 requests a
// round, 512 output tokens and three rounds, no boot noise, nothing failed.
Experiment MakeExperiment(const std::vector<std::string>& cases = {"1k-512-c1"}, int rounds = 3);

// Appends one more step of the plan's order with its boot; returns its number.
int AddBoot(Experiment& experiment, const std::string& arm, int rounds);

// Sets the rounds of one arm in one boot, in order.
void SetThroughput(Experiment& experiment, const std::string& case_name, const std::string& arm,
                   const std::vector<double>& values, int boot = 0);
void SetLatency(Experiment& experiment, const std::string& case_name, const std::string& arm,
                evidence::Metric metric, int percentile, const std::vector<double>& values);
void SetFailures(Experiment& experiment, const std::string& case_name, const std::string& arm,
                 int index, int failed);

// Baseline 115 tok/s in every round, the candidate at 115·exp(ln(ratio) + sd·{-1, 0, 1}):
// three ratios whose log has exactly this mean and this sd.
void SetRatio(Experiment& experiment, const std::string& case_name, double ratio, double sd);

plan::Gate MinGain(const std::string& case_name, double percent);
plan::Gate MaxLoss(const std::string& case_name, double percent,
                   plan::OnFailures on_failures = plan::OnFailures::kInconclusive);
plan::Gate MinThroughput(const std::string& case_name, double tokens_per_s);
plan::Gate Failures(double max_rate_percent, const std::string& arm = kCandidate);
plan::Gate Provenance();

}  // namespace upgrade_gate::gates
