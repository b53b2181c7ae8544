#include "framework/cli/load_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/base/json.h"
#include "tests/support/golden_text.h"
#include "tests/support/load_rounds.h"

namespace upgrade_gate::cli {
namespace {

using base::Json;
using test_support::ExpectGolden;
using test_support::FailedRequest;
using test_support::HandRounds;
using ::testing::ElementsAre;

LoadSettings Settings() {
  LoadSettings settings;
  settings.endpoint = "http://127.0.0.1:8000/v1/completions";
  settings.model = "tiny";
  settings.round.input_tokens = 100;
  settings.round.output_tokens = 4;
  settings.round.concurrency = 2;
  settings.round.requests = 4;
  settings.rounds = 2;
  return settings;
}

LoadTest HandTest() {
  LoadTest test;
  test.rounds = HandRounds();
  test.warmup = {FailedRequest(0, evidence::FailureKind::kStalled, "")};
  test.started_at = "2026-11-29T21:40:05.123Z";
  test.seed = 7;
  test.input = "synthetic token ids";
  return test;
}

Json Written(const LoadSettings& settings, const LoadTest& test,
             const std::vector<gates::FailIfResult>& conditions = {}) {
  const auto numbers = evidence::SummarizeLoad(test.rounds, test.warmup, 8);
  const auto json = base::ParseJson(WriteLoadJson(settings, test, numbers, conditions));
  EXPECT_TRUE(json.has_value());
  return json ? *json : Json();
}

TEST(LoadJson, IsWrittenWhole) {
  const LoadTest test = HandTest();
  ExpectGolden("load.json",
               WriteLoadJson(Settings(), test, evidence::SummarizeLoad(test.rounds, test.warmup, 8),
                             {{"ttft.p95 > 150ms", gates::Verdict::kFail, "it is 153 ms"},
                              {"tpot.p95 > 1s", gates::Verdict::kPass, "it is 13 ms"},
                              {"e2e.p99 > 1s", gates::Verdict::kInconclusive, "…"}}));
}

TEST(LoadJson, WhatHasNoValueIsNullAndThereForAReader) {
  LoadTest test = HandTest();
  for (evidence::LoadRound& round : test.rounds) {
    for (auto& request : round.record.requests) {
      request.failure = {evidence::FailureKind::kHttpStatus, "404"};
    }
  }
  test.incomplete = "interrupted";
  LoadSettings settings = Settings();
  settings.round.open.emplace();
  settings.round.open->rate.value = 2.5;
  const Json json = Written(settings, test);
  EXPECT_EQ(json["complete"], false);
  EXPECT_EQ(json["incomplete"], "interrupted");
  EXPECT_EQ(json["succeeded"], 0);
  EXPECT_EQ(json["failures"], (Json{{"http_status", 8}}));
  EXPECT_EQ(json["concurrency"], nullptr);
  EXPECT_EQ(json["rate_per_s"], 2.5);
  EXPECT_EQ(json["arrivals"], "constant");
  for (const char* key : {"ttft_ms", "tpot_ms", "inter_chunk_ms", "e2e_ms"}) {
    for (const char* percentile : {"p50", "p90", "p95", "p99"}) {
      EXPECT_EQ(json[key][percentile], nullptr) << key;
    }
  }
  EXPECT_EQ(json["output_tokens_per_s"], 0);
}

TEST(LoadJson, AClientThatHurtTheNumbersSaysWhereAndHow) {
  LoadTest test = HandTest();
  test.rounds[1].record.client->reads = 100;
  test.rounds[1].record.client->inexact_reads = 20;
  const Json client = Written(Settings(), test)["client"];
  EXPECT_EQ(client["valid"], false);
  ASSERT_EQ(client["findings"].size(), 1U);
  EXPECT_EQ(client["findings"][0]["finding"], "client_bound");
  EXPECT_EQ(client["findings"][0]["round"], 2);
}

TEST(VllmResult, IsWrittenWhole) {
  const auto json = base::ParseJson(WriteVllmResult(Settings(), HandTest()));
  ASSERT_TRUE(json.has_value());
  ExpectGolden("vllm.json", base::WriteJson(*json));
}

TEST(VllmResult, StatisticsAreThoseOfNumpy) {
  LoadTest test = HandTest();
  const auto json = base::ParseJson(WriteVllmResult(Settings(), test));
  ASSERT_TRUE(json.has_value());
  // TTFT 100, 101, 102, 103, 200, 201 and 203 ms.
  EXPECT_NEAR((*json)["mean_ttft_ms"].get<double>(), 144.285714, 1e-6);
  EXPECT_NEAR((*json)["median_ttft_ms"].get<double>(), 103, 1e-9);
  EXPECT_NEAR((*json)["std_ttft_ms"].get<double>(), 49.418661, 1e-6);
  EXPECT_NEAR((*json)["p99_ttft_ms"].get<double>(), 202.88, 1e-9);
  EXPECT_EQ((*json)["completed"], 7);
  EXPECT_EQ((*json)["failed"], 1);
  EXPECT_EQ((*json)["errors"][6], "empty_output: 8 tokens by usage");
  EXPECT_EQ((*json)["output_lens"], (Json{4, 4, 4, 4, 4, 4, 0, 4}));
  EXPECT_EQ((*json)["max_concurrent_requests"], 3);
  EXPECT_EQ((*json)["total_token_throughput"], (700 + 28) / 3.0);
}

TEST(VllmResult, AnOpenLoopAndNoSuccess) {
  LoadSettings settings = Settings();
  settings.round.open.emplace();
  settings.round.open->rate.value = 2.5;
  settings.round.open->arrivals = plan::Arrivals::kPoisson;
  LoadTest test = HandTest();
  test.rounds.clear();
  auto json = base::ParseJson(WriteVllmResult(settings, test));
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ((*json)["request_rate"], 2.5);
  EXPECT_EQ((*json)["burstiness"], 1.0);
  EXPECT_EQ((*json)["max_concurrency"], nullptr);
  EXPECT_EQ((*json)["median_ttft_ms"], nullptr);
  EXPECT_EQ((*json)["output_throughput"], nullptr);
  settings.round.open->arrivals = plan::Arrivals::kConstant;
  json = base::ParseJson(WriteVllmResult(settings, test));
  EXPECT_EQ((*json)["burstiness"], nullptr);
}

}  // namespace
}  // namespace upgrade_gate::cli
