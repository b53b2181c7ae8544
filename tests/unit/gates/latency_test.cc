#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/gates/judge.h"
#include "tests/unit/gates/experiment.h"

namespace upgrade_gate::gates {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCase = "1k-512-c1";
constexpr auto kTtft = evidence::Metric::kTtft;

plan::Gate Latency(const plan::LatencyGate& rule) {
  plan::Gate gate;
  gate.id = "latency";
  gate.selection.case_name = kCase;
  gate.rule = rule;
  return gate;
}

plan::Gate MaxIncrease(double percent) {
  plan::LatencyGate rule;
  rule.max_increase = base::Percent{percent};
  return Latency(rule);
}

plan::Gate MaxMs(std::chrono::microseconds limit) {
  plan::LatencyGate rule;
  rule.max = limit;
  return Latency(rule);
}

Experiment WithRatio(double ratio, double sd) {
  Experiment e = MakeExperiment();
  std::vector<double> candidate;
  for (const double step : {-1.0, 0.0, 1.0}) candidate.push_back(200 * ratio * std::exp(sd * step));
  SetLatency(e, kCase, kBaseline, kTtft, 95, {200, 200, 200});
  SetLatency(e, kCase, kCandidate, kTtft, 95, candidate);
  return e;
}

GateResult Judge(const Experiment& e, const plan::Gate& gate) {
  return JudgeGate(e.plan, gate, e.evidence.summary);
}

TEST(LatencyGate, LowerIsBetter) {
  const GateResult faster = Judge(WithRatio(0.372, 0.01), MaxIncrease(5));
  EXPECT_EQ(faster.verdict, Verdict::kPass) << faster.message;
  EXPECT_DOUBLE_EQ(*faster.margin, 1.05);
  EXPECT_NEAR(*faster.estimate, 0.372, 1e-9);
  EXPECT_THAT(faster.message, HasSubstr("200.0 → 74.4 ms"));
  EXPECT_THAT(faster.message, HasSubstr("lower is better"));

  const GateResult slower = Judge(WithRatio(1.2, 0.01), MaxIncrease(5));
  EXPECT_EQ(slower.verdict, Verdict::kFail);
  EXPECT_EQ(slower.finding, Finding::kRegression);

  // 1.04·exp(±2.920·0.01/√3) = [1.0226, 1.0577]
  const GateResult open = Judge(WithRatio(1.04, 0.01), MaxIncrease(5));
  EXPECT_EQ(open.verdict, Verdict::kInconclusive);
  EXPECT_NEAR(open.interval->upper, 1.0577, 1e-4);
}

TEST(LatencyGate, LooksAtTheMetricAndPercentileOfTheGate) {
  Experiment e = WithRatio(1.0, 0.001);
  SetLatency(e, kCase, kCandidate, evidence::Metric::kTpot, 99, {80, 81, 82});
  SetLatency(e, kCase, kBaseline, evidence::Metric::kTpot, 99, {40, 41, 42});
  plan::LatencyGate rule;
  rule.metric = evidence::Metric::kTpot;
  rule.percentile = 99;
  rule.max_increase = base::Percent{5};
  const GateResult result = Judge(e, Latency(rule));
  EXPECT_EQ(result.verdict, Verdict::kFail);
  EXPECT_DOUBLE_EQ(*result.cases[0].baseline, 41);
  EXPECT_DOUBLE_EQ(*result.cases[0].candidate, 81);
  EXPECT_EQ(Judge(e, MaxIncrease(5)).verdict, Verdict::kPass);
}

TEST(LatencyGate, AbsoluteMaximumIsInMilliseconds) {
  const Experiment e = WithRatio(1.0, 0.001);
  using std::chrono::milliseconds;
  const GateResult pass = Judge(e, MaxMs(milliseconds(210)));
  EXPECT_EQ(pass.verdict, Verdict::kPass) << pass.message;
  EXPECT_DOUBLE_EQ(*pass.margin, 210);
  const GateResult fail = Judge(e, MaxMs(milliseconds(190)));
  EXPECT_EQ(fail.verdict, Verdict::kFail);
  EXPECT_EQ(fail.finding, Finding::kOverThreshold);
  EXPECT_EQ(Judge(e, MaxMs(milliseconds(200))).verdict, Verdict::kInconclusive);
}

TEST(LatencyGate, APercentileOfFewValuesIsCalledAMaximum) {
  Experiment e = WithRatio(1.0, 0.001);
  EXPECT_THAT(Judge(e, MaxIncrease(5)).message, HasSubstr("P95 TTFT (max of 8)"));
  for (const auto& [count, is_maximum] : {std::pair{19, true}, std::pair{20, false}}) {
    for (const char* arm : {kBaseline, kCandidate}) {
      for (auto& round : e.At(kCase, arm).rounds) round.latency[kTtft].count = count;
    }
    const std::string message = Judge(e, MaxIncrease(5)).message;
    if (is_maximum) {
      EXPECT_THAT(message, HasSubstr("(max of 19)"));
    } else {
      EXPECT_THAT(message, Not(HasSubstr("max of")));
    }
  }
}

TEST(LatencyGate, ADaggerCaseIsInconclusive) {
  for (const char* arm : {kBaseline, kCandidate}) {
    Experiment e = WithRatio(0.5, 0.001);
    SetFailures(e, kCase, arm, 0, 1);
    const GateResult result = Judge(e, MaxIncrease(5));
    EXPECT_EQ(result.verdict, Verdict::kInconclusive);
    EXPECT_EQ(result.finding, Finding::kFailuresInCase);
    EXPECT_FALSE(result.estimate.has_value());
  }
  Experiment e = WithRatio(0.5, 0.001);
  SetFailures(e, kCase, kCandidate, 0, 1);
  EXPECT_EQ(Judge(e, MaxMs(std::chrono::milliseconds(900))).finding, Finding::kFailuresInCase);
}

TEST(LatencyGate, AMissingPercentileIsNotMeasured) {
  Experiment e = WithRatio(0.5, 0.001);
  e.Round(kCase, kCandidate, 1).latency[kTtft] = {};
  EXPECT_EQ(Judge(e, MaxIncrease(5)).finding, Finding::kNotMeasured);
  e = WithRatio(0.5, 0.001);
  e.Round(kCase, kBaseline, 1).latency.clear();
  const GateResult result = Judge(e, MaxIncrease(5));
  EXPECT_EQ(result.verdict, Verdict::kInconclusive);
  EXPECT_EQ(result.finding, Finding::kNotMeasured);
}

}  // namespace
}  // namespace upgrade_gate::gates
