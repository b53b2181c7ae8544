#include "framework/evidence/load_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/load_rounds.h"

namespace upgrade_gate::evidence {
namespace {

using std::chrono::milliseconds;
using test_support::AnsweredRequest;
using test_support::FailedRequest;
using testing::ElementsAre;
using testing::Pair;

LoadRound Round(int number, milliseconds ttft) {
  LoadRound round;
  round.record.round = number;
  round.record.duration = std::chrono::seconds(2);
  round.record.client.emplace();
  round.record.requests = {AnsweredRequest(0, ttft, milliseconds(10), 3),
                           FailedRequest(1, FailureKind::kEmptyOutput, "no text"),
                           AnsweredRequest(2, 2 * ttft, milliseconds(20), 3)};
  round.gaps_ms = {{10, 10}, {7777}, {20, 20}};
  return round;
}

TEST(LoadNumbers, ARoundsNumbersAreOfItsSuccessfulRequests) {
  const LoadNumbers numbers = SummarizeLoad({Round(1, milliseconds(100))}, {}, 3);
  EXPECT_EQ(numbers.planned, 3);
  EXPECT_EQ(numbers.counts.requests, 3);
  EXPECT_EQ(numbers.succeeded(), 2);
  EXPECT_EQ(numbers.duration_s, 2);
  EXPECT_EQ(numbers.output_tokens_per_s, 3.0);  // six tokens in two seconds
  EXPECT_EQ(numbers.requests_per_s, 1.0);
  EXPECT_EQ(numbers.latency_ms.at(LoadLatency::kTtft).at(50), 100);
  EXPECT_EQ(numbers.latency_ms.at(LoadLatency::kTtft).at(99), 200);
  EXPECT_EQ(numbers.latency_ms.at(LoadLatency::kTpot).at(99), 20);
  EXPECT_EQ(numbers.latency_ms.at(LoadLatency::kE2e).at(99), 240);
  // The failed request's gap of 7.8 s is in no percentile.
  EXPECT_EQ(numbers.latency_ms.at(LoadLatency::kInterChunk).at(50), 10);
  EXPECT_EQ(numbers.latency_ms.at(LoadLatency::kInterChunk).at(99), 20);
  EXPECT_EQ(numbers.values.at(LoadLatency::kInterChunk).most, 4);
  EXPECT_THAT(numbers.examples, ElementsAre(Pair(FailureKind::kEmptyOutput, "no text")));
}

TEST(LoadNumbers, OverRoundsItIsTheMedianAndNeverAPool) {
  const LoadNumbers numbers = SummarizeLoad(
      {Round(1, milliseconds(100)), Round(2, milliseconds(900)), Round(3, milliseconds(200))},
      {FailedRequest(0, FailureKind::kStalled, "")}, 9);
  EXPECT_EQ(numbers.latency_ms.at(LoadLatency::kTtft).at(99), 400);  // of 200, 1800 and 400
  EXPECT_EQ(numbers.duration_s, 6);
  EXPECT_EQ(numbers.counts.requests, 9);
  EXPECT_EQ(numbers.counts.failed(), 3);
  EXPECT_EQ(numbers.warmup.requests, 1);
  EXPECT_EQ(numbers.warmup.failed(), 1);
}

TEST(LoadNumbers, WithoutASuccessThereIsNoLatency) {
  LoadRound round;
  round.record.round = 1;
  round.record.duration = milliseconds(10);
  round.record.client.emplace();
  round.record.requests = {FailedRequest(0, FailureKind::kHttpStatus, "404")};
  round.gaps_ms.resize(1);
  const LoadNumbers numbers = SummarizeLoad({round}, {}, 1);
  EXPECT_TRUE(numbers.latency_ms.empty());
  EXPECT_EQ(numbers.values.at(LoadLatency::kTtft).most, 0);
  EXPECT_EQ(numbers.output_tokens_per_s, 0);
}

TEST(LoadNumbers, ARoundInWhichNothingWasSentIsNone) {
  LoadRound empty;
  empty.record.round = 1;
  const LoadNumbers numbers = SummarizeLoad({empty}, {}, 5);
  EXPECT_TRUE(numbers.rounds.empty());
  EXPECT_FALSE(numbers.output_tokens_per_s.has_value());
  EXPECT_EQ(numbers.counts.requests, 0);
}

TEST(LoadNumbers, AHurtClientMakesTheLoadInvalid) {
  LoadRound round = Round(1, milliseconds(100));
  EXPECT_TRUE(SummarizeLoad({round}, {}, 3).client_valid());
  round.record.client->open_loop = true;
  round.record.client->send_late_p99 = milliseconds(30);
  const LoadNumbers numbers = SummarizeLoad({Round(1, milliseconds(100)), round}, {}, 3);
  EXPECT_FALSE(numbers.client_valid());
  ASSERT_EQ(numbers.rounds[1].findings.size(), 1U);
  EXPECT_EQ(numbers.rounds[1].findings[0].fault, ClientFault::kClientBound);
}

TEST(LoadNumbers, APercentileOfFewValuesIsTheirMaximum) {
  struct Row {
    int percentile;
    ValueCount values;
    const char* words;
  };
  const Row rows[] = {
      {95, {16, 16}, "max of 16"},
      {95, {19, 19}, "max of 19"},
      {95, {20, 20}, "P95 of 20"},
      {95, {12, 16}, "max of 12–16"},
      {95, {16, 64}, "P95, or max of 16"},
      {95, {59, 64}, "P95 of 59–64"},
      {99, {99, 99}, "max of 99"},
      {99, {100, 100}, "P99 of 100"},
      {50, {2, 2}, "P50 of 2"},
      {50, {1, 1}, "max of 1"},
  };
  for (const Row& row : rows) EXPECT_EQ(DescribePercentile(row.percentile, row.values), row.words);
}

}  // namespace
}  // namespace upgrade_gate::evidence
