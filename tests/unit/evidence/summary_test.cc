#include "framework/evidence/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/evidence/evidence_test_support.h"

namespace upgrade_gate::evidence {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

const std::vector<std::string> kCases = {"1k-512-c1", "8k"};

base::Result<Summary> Of(const std::vector<RoundRecord>& rounds) {
  return Summarize(CaptureOf(), {BootOf("baseline", 1), BootOf("candidate", 2)}, rounds, kCases);
}

RoundSummary One(std::vector<RequestRecord> requests) {
  const auto summary = Of({RoundOf("baseline", 1, 1, std::move(requests))});
  EXPECT_TRUE(summary) << ErrorOf(summary);
  return summary->cases.at(0).arms.at("baseline").rounds.at(0);
}

RequestRecord WithTtft(int index, std::int64_t ms) {
  RequestRecord request = Accepted(index);
  request.times.first_text = Ms(ms);
  return request;
}

TEST(LatencyTest, CountsFromTheScheduleAndNotFromTheSending) {
  RequestRecord request = Accepted(0, 5);
  request.times.scheduled = Ms(10);
  request.times.sent = Ms(60);
  request.times.first_byte = Ms(70);
  request.times.first_token = Ms(90);  // reasoning: not text
  request.times.first_text = Ms(110);
  request.times.last_token = Ms(210);
  request.times.closed = Ms(900);
  EXPECT_EQ(LatencyMs(request, Metric::kTtft), 100.0);
  EXPECT_EQ(LatencyMs(request, Metric::kE2e), 200.0);
  EXPECT_EQ(LatencyMs(request, Metric::kTpot), 25.0);  // 100 ms over 4 gaps
}

TEST(LatencyTest, ReasoningAloneHasNoTimeToText) {
  RequestRecord request = Accepted(0);
  request.times.first_text.reset();
  EXPECT_EQ(LatencyMs(request, Metric::kTtft), std::nullopt);
  EXPECT_EQ(LatencyMs(request, Metric::kTpot), 10.0);
  request.times.first_token.reset();  // one body
  EXPECT_EQ(LatencyMs(request, Metric::kTpot), std::nullopt);
  EXPECT_EQ(LatencyMs(request, Metric::kE2e), 200.0);
}

TEST(LatencyTest, NanosecondsAreKept) {
  RequestRecord request = Accepted(0);
  request.times.scheduled = base::Nanoseconds(1);
  request.times.first_text = base::Nanoseconds(2);
  EXPECT_EQ(LatencyMs(request, Metric::kTtft), 1e-6);
}

TEST(LatencyTest, AFailedRequestHasNone) {
  RequestRecord request = Accepted(0);
  request.failure = Failure{FailureKind::kMissingDone, ""};
  for (const Metric metric : kAllMetrics) EXPECT_EQ(LatencyMs(request, metric), std::nullopt);
}

TEST(LatencyTest, OneTokenHasNoTimePerToken) {
  RequestRecord request = Accepted(0, 1);
  EXPECT_EQ(LatencyMs(request, Metric::kTpot), std::nullopt);
  EXPECT_EQ(LatencyMs(request, Metric::kE2e), 100.0);
  request = Accepted(0, 2);
  EXPECT_EQ(LatencyMs(request, Metric::kTpot), 10.0);
}

TEST(LatencyTest, AStampThatNeverCameIsNotZero) {
  for (const auto stamp : {&RequestTimes::scheduled, &RequestTimes::first_text}) {
    RequestRecord request = Accepted(0);
    request.times.*stamp = std::nullopt;
    EXPECT_EQ(LatencyMs(request, Metric::kTtft), std::nullopt);
  }
}

// Nearest rank: rank = ceil(p / 100 * n).
TEST(PercentilesTest, AreNearestRanks) {
  std::vector<RequestRecord> requests;
  for (int i = 0; i < 20; ++i) requests.push_back(WithTtft(i, 100 - (i * 7) % 20));  // 81 to 100
  const Latency latency = One(requests).latency.at(Metric::kTtft);
  EXPECT_EQ(latency.count, 20);
  EXPECT_THAT(latency.percentiles_ms,
              ElementsAre(Pair(50, 90.0), Pair(90, 98.0), Pair(95, 99.0), Pair(99, 100.0)));
}

TEST(PercentilesTest, OneMoreValueMovesTheRankUp) {
  std::vector<RequestRecord> requests;
  for (int i = 0; i < 21; ++i) requests.push_back(WithTtft(i, i + 1));
  // ceil(10.5) = 11, ceil(18.9) = 19, ceil(19.95) = 20, ceil(20.79) = 21
  EXPECT_THAT(One(requests).latency.at(Metric::kTtft).percentiles_ms,
              ElementsAre(Pair(50, 11.0), Pair(90, 19.0), Pair(95, 20.0), Pair(99, 21.0)));
}

TEST(PercentilesTest, AHundredValuesGiveTheirOwnPercentile) {
  std::vector<RequestRecord> requests;
  for (int i = 0; i < 100; ++i) requests.push_back(WithTtft(i, 100 - i));
  EXPECT_THAT(One(requests).latency.at(Metric::kTtft).percentiles_ms,
              ElementsAre(Pair(50, 50.0), Pair(90, 90.0), Pair(95, 95.0), Pair(99, 99.0)));
}

TEST(PercentilesTest, OneValueIsEveryPercentileAndNoneIsNone) {
  EXPECT_THAT(One({WithTtft(0, 7)}).latency.at(Metric::kTtft).percentiles_ms,
              ElementsAre(Pair(50, 7.0), Pair(90, 7.0), Pair(95, 7.0), Pair(99, 7.0)));
  const RoundSummary none = One({Failed(0, FailureKind::kStalled)});
  for (const Metric metric : kAllMetrics) {
    EXPECT_EQ(none.latency.at(metric).count, 0);
    EXPECT_THAT(none.latency.at(metric).percentiles_ms, IsEmpty());
  }
}

TEST(RoundSummaryTest, ThroughputIsTokensOfSuccessesOverTheWholeDuration) {
  RoundRecord record = RoundOf("baseline", 1, 1,
                               {Accepted(0, 11), Failed(1, FailureKind::kMissingDone),
                                Failed(2, FailureKind::kMissingDone), Accepted(3, 21)});
  record.duration = Ms(2500);
  const auto summary = Of({record});
  ASSERT_TRUE(summary);
  const RoundSummary& round = summary->cases[0].arms.at("baseline").rounds.at(0);
  EXPECT_EQ(round.output_tokens, 32);  // the failed requests' usage says 11 each
  EXPECT_EQ(round.duration_s, 2.5);
  EXPECT_EQ(round.output_tokens_per_s, 12.8);
  EXPECT_EQ(round.counts.requests, 4);
  EXPECT_EQ(round.counts.failed(), 2);
  EXPECT_THAT(round.counts.by_kind, ElementsAre(Pair(FailureKind::kMissingDone, 2)));
  EXPECT_EQ(round.latency.at(Metric::kE2e).count, 2);
}

TEST(RoundSummaryTest, TokensAreThoseOfUsageNotThoseAskedFor) {
  RequestRecord request = Accepted(0, 11);
  request.output_tokens = 500;
  EXPECT_EQ(One({request}).output_tokens, 11);
}

TEST(RoundSummaryTest, ARoundWithoutDurationHasNoThroughput) {
  RoundRecord record = RoundOf("baseline", 1, 1, {Failed(0, FailureKind::kTransport)});
  record.duration = Ms(0);
  const auto summary = Of({record});
  EXPECT_EQ(summary->cases[0].arms.at("baseline").rounds.at(0).output_tokens_per_s, 0.0);
}

// sha256("<64 hex>\n<64 hex>"), computed with sha256sum.
TEST(RoundSummaryTest, InputsAreTheBodyDigestsJoinedByNewlines) {
  RequestRecord a = Accepted(0), b = Accepted(1);
  a.body_sha256 = std::string(64, 'a');
  b.body_sha256 = std::string(64, 'b');
  EXPECT_EQ(One({a, b}).inputs, base::Sha256Of(std::string(64, 'a') + "\n" + std::string(64, 'b')));
  EXPECT_EQ(One({a}).inputs, base::Sha256Of(std::string(64, 'a')));
  std::swap(a.body_sha256, b.body_sha256);
  EXPECT_NE(One({a, b}).inputs, base::Sha256Of(std::string(64, 'a') + "\n" + std::string(64, 'b')));
  EXPECT_EQ(One({}).inputs, "");
}

TEST(SummarizeTest, CasesKeepThePlansOrderAndRoundsAreSorted) {
  const auto summary =
      Summarize(CaptureOf(), {BootOf("baseline", 3), BootOf("baseline", 1)},
                {RoundOf("baseline", 3, 1, {Accepted(0)}), RoundOf("baseline", 1, 2, {Accepted(0)}),
                 RoundOf("baseline", 1, 1, {Accepted(0)})},
                {"z", "1k-512-c1", "a"});
  ASSERT_TRUE(summary) << ErrorOf(summary);
  EXPECT_EQ(summary->cases[0].name, "z");
  EXPECT_EQ(summary->cases[1].name, "1k-512-c1");
  EXPECT_EQ(summary->cases[2].name, "a");
  EXPECT_THAT(summary->cases[0].arms, IsEmpty());
  std::vector<std::pair<int, int>> order;
  for (const RoundSummary& round : summary->cases[1].arms.at("baseline").rounds) {
    order.emplace_back(round.boot, round.round);
  }
  EXPECT_THAT(order, ElementsAre(Pair(1, 1), Pair(1, 2), Pair(3, 1)));
  EXPECT_EQ(summary->boots[0].number, 1);
  EXPECT_EQ(summary->FindBoot(3)->number, 3);
  EXPECT_EQ(summary->FindBoot(2), nullptr);
  EXPECT_EQ(summary->FindCase("a")->name, "a");
  EXPECT_EQ(summary->FindCase("b"), nullptr);
}

TEST(SummarizeTest, WarmUpIsCountedApart) {
  RoundRecord round = RoundOf("baseline", 1, 1, {Accepted(0)});
  round.warmup = {Failed(0, FailureKind::kEmptyOutput), Accepted(1)};
  const auto summary = Of({round});
  const ArmRounds& arm = summary->cases[0].arms.at("baseline");
  EXPECT_EQ(arm.warmup.requests, 2);
  EXPECT_EQ(arm.warmup.failed(), 1);
  EXPECT_EQ(arm.counts.requests, 1);
  EXPECT_EQ(arm.counts.failed(), 0);
  EXPECT_EQ(summary->arms.at("baseline").counts.failed(), 0);
  EXPECT_EQ(arm.rounds[0].output_tokens, 11);
}

TEST(SummarizeTest, SupersededRoundsAreCountedAndNothingElse) {
  RoundRecord old = RoundOf("baseline", 1, 1, {Failed(0, FailureKind::kTransport)});
  old.superseded = true;
  old.warmup = {Accepted(0)};
  RoundRecord alone = RoundOf("candidate", 2, 1, {Accepted(0)});
  alone.superseded = true;
  const auto summary = Of({old, RoundOf("baseline", 1, 2, {Accepted(0)}), alone});
  ASSERT_TRUE(summary) << ErrorOf(summary);
  const ArmRounds& arm = summary->cases[0].arms.at("baseline");
  EXPECT_EQ(arm.superseded_rounds, 1);
  EXPECT_EQ(arm.rounds.size(), 1U);
  EXPECT_EQ(arm.counts.failed(), 0);
  EXPECT_EQ(arm.warmup.requests, 0);
  EXPECT_EQ(summary->arms.at("baseline").rounds, 1);
  EXPECT_THAT(summary->cases[0].arms.at("candidate").rounds, IsEmpty());
  EXPECT_EQ(summary->cases[0].arms.at("candidate").superseded_rounds, 1);
}

TEST(SummarizeTest, TotalsOfAnArmRunOverAllCasesAndAnArmWithoutRoundsHasZero) {
  RoundRecord other = RoundOf("baseline", 1, 1, {Failed(0, FailureKind::kEmptyOutput)});
  other.case_name = "8k";
  const auto summary =
      Of({RoundOf("baseline", 1, 1, {Accepted(0), Failed(1, FailureKind::kEmptyOutput)}), other});
  const ArmTotal& total = summary->arms.at("baseline");
  EXPECT_EQ(total.counts.requests, 3);
  EXPECT_THAT(total.counts.by_kind, ElementsAre(Pair(FailureKind::kEmptyOutput, 2)));
  EXPECT_EQ(total.rounds, 2);
  EXPECT_EQ(summary->arms.at("candidate").counts.requests, 0);
  EXPECT_EQ(summary->arms.at("candidate").rounds, 0);
}

TEST(SummarizeTest, RefusesRoundsThatDoNotBelong) {
  RoundRecord round = RoundOf("baseline", 1, 1, {Accepted(0)});
  EXPECT_EQ(ErrorOf(Of({RoundOf("candidate", 1, 1, {Accepted(0)})})),
            "case 1k-512-c1, arm candidate, boot 1, round 1: that boot was of arm baseline");
  EXPECT_EQ(ErrorOf(Of({RoundOf("baseline", 7, 1, {Accepted(0)})})),
            "case 1k-512-c1, arm baseline, boot 7, round 1: there is no record of that boot");
  EXPECT_EQ(ErrorOf(Of({round, round})),
            "case 1k-512-c1, arm baseline, boot 1, round 1: is there twice");
  round.case_name = "9k";
  EXPECT_EQ(ErrorOf(Of({round})),
            "case 9k, arm baseline, boot 1, round 1: the plan has no such case");
  round = RoundOf("baseline", 1, 1, {Accepted(0)});
  round.step = 2;
  EXPECT_THAT(ErrorOf(Of({round})), HasSubstr("is of step 2, but that boot was of step 1"));
  EXPECT_EQ(Of({round}).error().kind, base::ErrorKind::kEvidence);
}

TEST(SummarizeTest, RefusesIndicesThatAreNotUniqueAscendingAndPlanned) {
  EXPECT_THAT(ErrorOf(Of({RoundOf("baseline", 1, 1, {Accepted(0), Accepted(0)})})),
              HasSubstr("request 0: comes after request 0; indices are unique and ascending"));
  EXPECT_THAT(ErrorOf(Of({RoundOf("baseline", 1, 1, {Accepted(1), Accepted(0)})})),
              HasSubstr("request 0: comes after request 1"));
  EXPECT_THAT(ErrorOf(Of({RoundOf("baseline", 1, 1, {Accepted(1)})})),
              HasSubstr("request 1: only 1 were planned, from 0"));
}

TEST(SummarizeTest, RefusesDoubledBootsAndCases) {
  EXPECT_EQ(
      ErrorOf(Summarize(CaptureOf(), {BootOf("baseline", 1), BootOf("candidate", 1)}, {}, {})),
      "boot 1: is there twice");
  EXPECT_EQ(ErrorOf(Summarize(CaptureOf(), {}, {}, {"a", "a"})),
            "case a: is there twice in the order");
}

}  // namespace
}  // namespace upgrade_gate::evidence
