#include "framework/gates/fail_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace upgrade_gate::gates {
namespace {

using evidence::FailureKind;
using evidence::LoadLatency;
using evidence::LoadNumbers;

// 64 requests, three of them failed; TTFT of 61 values in each of two rounds.
LoadNumbers Numbers() {
  LoadNumbers numbers;
  numbers.counts.requests = 64;
  numbers.counts.by_kind = {{FailureKind::kEmptyOutput, 2}, {FailureKind::kHttpStatus, 1}};
  numbers.output_tokens_per_s = 880.5;
  numbers.requests_per_s = 2.5;
  numbers.latency_ms[LoadLatency::kTtft] = {{50, 200.0}, {90, 500.0}, {95, 800.0}, {99, 1250.0}};
  numbers.values[LoadLatency::kTtft] = {61, 61};
  numbers.rounds.resize(2);
  return numbers;
}

FailIfResult Judged(const std::string& expression, const LoadNumbers& numbers = Numbers()) {
  const auto condition = ParseFailIf(expression);
  EXPECT_TRUE(condition.has_value()) << expression << ": " << condition.error().message;
  return condition ? Evaluate(*condition, numbers) : FailIfResult{};
}

TEST(FailIf, Holds) {
  struct Row {
    const char* expression;
    Verdict verdict;
    const char* message;
  };
  const Row rows[] = {
      {"ttft.p95 > 799.9ms", Verdict::kFail, "it is 800 ms (P95 of 61)"},
      {"ttft.p95 > 800ms", Verdict::kPass, "it is 800 ms (P95 of 61)"},
      {"ttft.p95>=800ms", Verdict::kFail, "it is 800 ms (P95 of 61)"},
      {"ttft.p95 >= 0.8s", Verdict::kFail, "it is 800 ms (P95 of 61)"},
      {"  ttft.p99 < 1.25s ", Verdict::kPass, "it is 1.25 s (max of 61)"},
      {"ttft.p99 <= 1.25s", Verdict::kFail, "it is 1.25 s (max of 61)"},
      {"ttft.p50 < 200001us", Verdict::kFail, "it is 200 ms (P50 of 61)"},
      {"output_tokens_per_s < 900tok/s", Verdict::kFail, "it is 880.5 tok/s"},
      {"output_tokens_per_s < 880.5tok/s", Verdict::kPass, "it is 880.5 tok/s"},
      {"requests_per_s < 2.5/s", Verdict::kPass, "it is 2.5 requests/s"},
      {"requests_per_s <= 2.5/s", Verdict::kFail, "it is 2.5 requests/s"},
      {"failures > 2", Verdict::kFail, "it is 3 of 64 requests (4.69 %)"},
      {"failures > 3", Verdict::kPass, "it is 3 of 64 requests (4.69 %)"},
      {"failures > 4.6875%", Verdict::kPass, "it is 3 of 64 requests (4.69 %)"},
      {"failures >= 4.6875%", Verdict::kFail, "it is 3 of 64 requests (4.69 %)"},
      {"empty_output > 0", Verdict::kFail, "it is 2 of 64 requests (3.12 %)"},
      {"missing_done > 0", Verdict::kPass, "it is 0 of 64 requests (0.00 %)"},
      {"succeeded < 100%", Verdict::kFail, "it is 61 of 64 requests (95.31 %)"},
      {"succeeded < 61", Verdict::kPass, "it is 61 of 64 requests (95.31 %)"},
  };
  for (const Row& row : rows) {
    const FailIfResult result = Judged(row.expression);
    EXPECT_EQ(result.verdict, row.verdict) << row.expression;
    EXPECT_EQ(result.message, row.message) << row.expression;
  }
  EXPECT_EQ(Judged("  ttft.p99 < 1.25s ").expression, "ttft.p99 < 1.25s");
}

TEST(FailIf, AMetricWithoutAValueHoldsWhateverIsAsked) {
  constexpr const char* kMessage =
      "there is no value, since no request succeeded that could have one";
  for (const char* expression : {"tpot.p95 > 1h", "tpot.p95 < 1us", "inter_chunk.p99 > 1s"}) {
    const FailIfResult result = Judged(expression);
    EXPECT_EQ(result.verdict, Verdict::kFail) << expression;
    EXPECT_EQ(result.message, kMessage) << expression;
  }
  for (const char* expression : {"failures > 99", "succeeded < 0", "output_tokens_per_s > 9tok/s",
                                 "requests_per_s > 9/s", "ttft.p50 > 1h"}) {
    EXPECT_EQ(Judged(expression, LoadNumbers()).verdict, Verdict::kFail) << expression;
  }
}

TEST(FailIf, WhatAHurtClientMeasuredDecidesNothingButCounts) {
  LoadNumbers numbers = Numbers();
  numbers.rounds[1].findings.push_back({evidence::ClientFault::kClientBound, "late"});
  for (const char* expression : {"ttft.p95 > 1ms", "ttft.p95 > 1h",
                                 "output_tokens_per_s < 900tok/s", "requests_per_s < 1/s"}) {
    EXPECT_EQ(Judged(expression, numbers).verdict, Verdict::kInconclusive) << expression;
  }
  EXPECT_EQ(Judged("ttft.p95 > 1ms", numbers).message,
            "it is 800 ms (P95 of 61), but the client hurt what it measured");
  EXPECT_EQ(Judged("failures > 2", numbers).verdict, Verdict::kFail);
  EXPECT_EQ(Judged("succeeded < 10", numbers).verdict, Verdict::kPass);
  EXPECT_EQ(Judged("tpot.p50 > 1h", numbers).verdict, Verdict::kFail);  // still no value
}

TEST(FailIf, ErrorsSayWhatToWrite) {
  struct Row {
    const char* expression;
    const char* message;
  };
  const Row rows[] = {
      {"",
       "\"\" is no condition: write METRIC > VALUE, or >=, < or <=, such as \"ttft.p95 > 800ms\""},
      {"failures",
       "\"failures\" is no condition: write METRIC > VALUE, or >=, < or <=, such as \"ttft.p95 > "
       "800ms\""},
      {"failures == 1",
       "\"failures == 1\" is no condition: write METRIC > VALUE, or >=, < or <=, such as "
       "\"ttft.p95 > 800ms\""},
      {"ttft.p96 > 1ms", "unknown metric \"ttft.p96\" (did you mean \"ttft.p90\"?)"},
      {"empty_outputs > 0", "unknown metric \"empty_outputs\" (did you mean \"empty_output\"?)"},
      {"frobnication > 0",
       "unknown metric \"frobnication\": write ttft.p95 (or tpot, inter_chunk, e2e; p50, p90, "
       "p99), "
       "output_tokens_per_s, requests_per_s, succeeded, failures or a failure kind such as "
       "empty_output"},
      {"ttft.p95 > 800",
       "ttft.p95 is compared with a duration such as 800ms or 1.5s, not with \"800\""},
      {"ttft.p95 > 800tok/s",
       "ttft.p95 is compared with a duration such as 800ms or 1.5s, not with \"800tok/s\""},
      {"ttft.p95 > -1ms",
       "ttft.p95 is compared with a duration such as 800ms or 1.5s, not with \"-1ms\""},
      {"output_tokens_per_s < 900",
       "output_tokens_per_s is compared with a rate such as 900tok/s, not with \"900\""},
      {"requests_per_s < 9tok/s",
       "requests_per_s is compared with a rate such as 2.5/s, not with \"9tok/s\""},
      {"failures > 1 %",
       "failures is compared with a share such as 1% or a number of requests such as 0, not with "
       "\"1 %\""},
      {"failures > 101%", "failures is compared with a share from 0% to 100%, not with \"101%\""},
      {"failures > \x1b[2J",
       "failures is compared with a share such as 1% or a number of requests such as 0, not with "
       "\"\\x1b[2J\""},
  };
  for (const Row& row : rows) {
    const auto condition = ParseFailIf(row.expression);
    ASSERT_FALSE(condition.has_value()) << row.expression;
    EXPECT_EQ(condition.error().message, row.message) << row.expression;
    EXPECT_EQ(condition.error().kind, base::ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace upgrade_gate::gates
