// Conditions that a load test must not meet: `--fail-if 'ttft.p95 > 800ms'`. Pure.
//
//   METRIC OP VALUE
//   ttft | tpot | inter_chunk | e2e . p50 | p90 | p95 | p99    a duration: 800ms, 1.5s
//   output_tokens_per_s                                        a rate: 900tok/s
//   requests_per_s                                             a rate: 2.5/s
//   succeeded | failures | a failure kind (empty_output)       a share of the requests
//                                                              sent, 1%, or a number, 0
//   OP: > >= < <=
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "framework/base/result.h"
#include "framework/evidence/load_numbers.h"
#include "framework/gates/judgement.h"

namespace upgrade_gate::gates {

// What an expression compares, and in which unit its value is kept.
struct LoadMetric {
  enum class Kind { kLatency, kOutputRate, kRequestRate, kSucceeded, kFailed } kind = Kind::kFailed;
  evidence::LoadLatency latency = evidence::LoadLatency::kTtft;  // of kLatency
  int percentile = 0;                                            // of kLatency
  std::optional<evidence::FailureKind> failure;                  // of kFailed; absent: any
};

struct FailIf {
  std::string expression;  // as given
  LoadMetric metric;
  enum class Op { kAbove, kAtLeast, kBelow, kAtMost } op = Op::kAbove;
  double value = 0;    // milliseconds, tok/s, /s, a number of requests, or a percentage
  bool share = false;  // of the requests sent, in percent
};

// The error, without a place, quotes what is wrong and says what to write.
base::Result<FailIf> ParseFailIf(std::string_view text);

struct FailIfResult {
  std::string expression;
  // kFail: it holds, or the metric has no value: nothing passes by absence.
  // kInconclusive: a latency or a rate of a load that its own client hurt.
  Verdict verdict = Verdict::kFail;
  std::string message;  // "it is 912.3 ms (P95 of 64)"
};
FailIfResult Evaluate(const FailIf& condition, const evidence::LoadNumbers& numbers);

}  // namespace upgrade_gate::gates
