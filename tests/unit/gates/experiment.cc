#include "tests/unit/gates/experiment.h"

#include <cmath>

#include "framework/base/digest.h"
#include "framework/plan/plan_file.h"

namespace upgrade_gate::gates {
namespace {

constexpr int kRequests = 8;
constexpr int kOutputTokens = 512;

evidence::RoundSummary MakeRound(const std::string& case_name, int boot, int round) {
  evidence::RoundSummary summary;
  summary.boot = boot;
  summary.round = round;
  summary.planned = kRequests;
  summary.counts.requests = kRequests;
  summary.output_tokens = kRequests * kOutputTokens;
  summary.output_tokens_per_s = 100;
  summary.duration_s = static_cast<double>(summary.output_tokens) / summary.output_tokens_per_s;
  for (const evidence::Metric metric : evidence::kAllMetrics) {
    summary.latency[metric].count = kRequests;
    for (const int p : evidence::kPercentiles) summary.latency[metric].percentiles_ms[p] = 50;
  }
  summary.inputs = base::Sha256Of(case_name + std::to_string(round));
  return summary;
}

void Recount(Experiment& experiment) {
  for (auto& [name, total] : experiment.summary().arms) total = {};
  for (auto& of : experiment.summary().cases) {
    for (auto& [name, arm] : of.arms) {
      arm.counts = {};
      auto& total = experiment.summary().arms[name];
      for (const auto& round : arm.rounds) {
        ++total.rounds;
        for (auto* counts : {&arm.counts, &total.counts}) {
          counts->requests += round.counts.requests;
          for (const auto& [kind, n] : round.counts.by_kind) counts->by_kind[kind] += n;
        }
      }
    }
  }
}

plan::Gate ThroughputOf(const std::string& case_name, const plan::ThroughputGate& rule) {
  plan::Gate gate;
  gate.id = "throughput." + case_name;
  gate.location = {.line = 7, .column = 5};
  gate.selection.case_name = case_name;
  gate.rule = rule;
  return gate;
}

}  // namespace

base::Sha256Hex Digest(char c) {
  return base::Sha256Hex(64, c);
}

evidence::ArmRounds& Experiment::At(const std::string& case_name, const std::string& arm) {
  for (auto& of : summary().cases) {
    if (of.name == case_name) return of.arms.at(arm);
  }
  UG_CHECK(false && "no such case");
  return summary().cases.front().arms.at(arm);
}

evidence::RoundSummary& Experiment::Round(const std::string& case_name, const std::string& arm,
                                          int index) {
  return At(case_name, arm).rounds.at(static_cast<std::size_t>(index));
}

evidence::BootRecord& Experiment::Boot(int number) {
  return summary().boots.at(static_cast<std::size_t>(number - 1));
}

int AddBoot(Experiment& experiment, const std::string& arm, int rounds) {
  plan::BootStep step{.arm = arm, .location = {}, .cases = {}, .rounds = rounds};
  for (const plan::Case& of : experiment.plan.workload.cases) step.cases.push_back(of.name);
  experiment.plan.order.push_back(step);
  const int number = static_cast<int>(experiment.plan.order.size());
  const char digit = arm == kBaseline ? 'a' : 'b';

  evidence::BootRecord boot;
  boot.number = number;
  boot.step = number;
  boot.arm = arm;
  boot.host = "node-1";
  boot.client_sha256 = Digest('c');
  boot.pins = {{.name = "executable", .declared = Digest(digit), .found = Digest(digit)}};
  boot.identity = Digest(digit);
  boot.argv = {"/opt/server", "--port", "$PORT"};
  experiment.summary().boots.push_back(boot);
  for (auto& of : experiment.summary().cases) {
    for (int round = 1; round <= rounds; ++round) {
      of.arms[arm].rounds.push_back(MakeRound(of.name, number, round));
    }
  }
  Recount(experiment);
  return number;
}

Experiment MakeExperiment(const std::vector<std::string>& cases, int rounds) {
  Experiment experiment;
  plan::ResolvedPlan& plan = experiment.plan;
  plan.name = "test";
  plan.boot_noise = {.value = base::Percent{0}, .reason = "numbers by hand"};
  plan.workload.rounds = rounds;
  for (const auto& [name, role, digit] : {std::tuple{kBaseline, plan::ArmRole::kBaseline, 'a'},
                                          std::tuple{kCandidate, plan::ArmRole::kCandidate, 'b'}}) {
    plan::Arm arm;
    arm.name = name;
    arm.role = role;
    arm.executable = {.path = "server", .sha256 = Digest(digit)};
    arm.command = {"--port", "$PORT"};
    plan.arms.push_back(arm);
  }
  for (const std::string& name : cases) {
    plan::Case of;
    of.name = name;
    of.input_tokens = 1024;
    of.output_tokens = kOutputTokens;
    of.concurrency = 1;
    of.requests = kRequests;
    of.shape = "single_stream";
    plan.workload.cases.push_back(of);
    experiment.summary().cases.push_back({.name = name, .arms = {}});
  }
  AddBoot(experiment, kBaseline, rounds);
  AddBoot(experiment, kCandidate, rounds);
  experiment.evidence.digest = Digest('e');
  experiment.evidence.plan_yaml = "version: 1\n";
  experiment.summary().capture.complete = true;
  experiment.summary().capture.workload = plan::WorkloadDigest(plan);
  return experiment;
}

void SetThroughput(Experiment& experiment, const std::string& case_name, const std::string& arm,
                   const std::vector<double>& values, int boot) {
  std::size_t next = 0;
  for (auto& round : experiment.At(case_name, arm).rounds) {
    if (boot != 0 && round.boot != boot) continue;
    round.output_tokens_per_s = values.at(next++);
  }
}

void SetLatency(Experiment& experiment, const std::string& case_name, const std::string& arm,
                evidence::Metric metric, int percentile, const std::vector<double>& values) {
  std::size_t next = 0;
  for (auto& round : experiment.At(case_name, arm).rounds) {
    round.latency[metric].percentiles_ms[percentile] = values.at(next++);
  }
}

void SetFailures(Experiment& experiment, const std::string& case_name, const std::string& arm,
                 int index, int failed) {
  auto& round = experiment.Round(case_name, arm, index);
  round.counts.by_kind = {{evidence::FailureKind::kEmptyOutput, failed}};
  round.output_tokens = (kRequests - failed) * kOutputTokens;
  for (auto& [metric, latency] : round.latency) latency.count = kRequests - failed;
  Recount(experiment);
}

void SetRatio(Experiment& experiment, const std::string& case_name, double ratio, double sd) {
  std::vector<double> candidate;
  for (const double step : {-1.0, 0.0, 1.0}) {
    candidate.push_back(115.0 * std::exp(std::log(ratio) + sd * step));
  }
  SetThroughput(experiment, case_name, kBaseline, {115, 115, 115});
  SetThroughput(experiment, case_name, kCandidate, candidate);
}

plan::Gate MinGain(const std::string& case_name, double percent) {
  plan::ThroughputGate rule;
  rule.min_gain = base::Percent{percent};
  return ThroughputOf(case_name, rule);
}

plan::Gate MaxLoss(const std::string& case_name, double percent, plan::OnFailures on_failures) {
  plan::ThroughputGate rule;
  rule.max_loss = base::Percent{percent};
  rule.on_failures = on_failures;
  return ThroughputOf(case_name, rule);
}

plan::Gate MinThroughput(const std::string& case_name, double tokens_per_s) {
  plan::ThroughputGate rule;
  rule.min = base::TokensPerSecond{tokens_per_s};
  return ThroughputOf(case_name, rule);
}

plan::Gate Failures(double max_rate_percent, const std::string& arm) {
  plan::Gate gate;
  gate.id = "failures." + arm;
  gate.rule = plan::FailuresGate{.kind = evidence::FailureKind::kEmptyOutput,
                                 .arm = arm,
                                 .max_rate = base::Percent{max_rate_percent}};
  return gate;
}

plan::Gate Provenance() {
  plan::Gate gate;
  gate.id = "provenance";
  gate.rule = plan::ProvenanceGate{};
  return gate;
}

}  // namespace upgrade_gate::gates
