#include "framework/load/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/support/fake_transport.h"

namespace upgrade_gate::load {
namespace {

using namespace std::chrono_literals;
using evidence::FailureKind;
using evidence::RequestRecord;
using evidence::StopReason;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::upgrade_gate::testing::FakeTransport;
using ::upgrade_gate::testing::Script;

const std::string kText = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
const std::string kLastText =
    "data: {\"choices\":[{\"text\":\"b\",\"finish_reason\":\"length\"}]}\n\n";
const std::string kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n";
const std::string kDone = "data: [DONE]\n\n";

// Accepted: first text after 10 ms, last after 20 ms, [DONE] after 21 ms, end at `end`.
Script Good(std::chrono::nanoseconds end = 22ms) {
  Script script;
  script.Head(9ms).Body(10ms, kText).Body(20ms, kLastText + kUsage).Body(21ms, kDone).End(end);
  return script;
}
Script Refused(std::chrono::nanoseconds after, int status = 503) {
  Script script;
  script.Head(after, status, "text/plain").Body(after, "busy").End(after);
  return script;
}

std::vector<PreparedRequest> Requests(int count) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < count; ++i) requests.push_back(PrepareCompletion("m", {}, {i, 1, 2}, 2));
  return requests;
}

class DriverTest : public ::testing::Test {
 protected:
  DriverTest() {
    clock_.Advance(1000s);
    start_ = clock_.now();
    load_.url = "http://127.0.0.1:1/v1/completions";
  }
  base::Nanoseconds since_start() const { return clock_.now() - start_; }
  LoadResult Run(
      int requests, StopCheck stop = [] { return StopSignal{}; }) {
    requests_ = Requests(requests);
    auto result = RunLoad(transport_, clock_, load_, requests_, stop);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    EXPECT_EQ(transport_.in_flight(), 0);
    return result ? *std::move(result) : LoadResult{};
  }
  std::vector<int> StartedMs() const {
    std::vector<int> times;
    for (const auto& started : transport_.started) {
      times.push_back(static_cast<int>((started.at - start_) / 1ms));
    }
    return times;
  }

  base::ManualClock clock_;
  base::Instant start_;
  FakeTransport transport_{clock_};
  Load load_;
  std::vector<PreparedRequest> requests_;
};

std::string KindOf(const RequestRecord& record) {
  return record.failure ? std::string(evidence::Name(record.failure->kind)) : "accepted";
}
std::vector<std::string> Kinds(const LoadResult& result) {
  std::vector<std::string> kinds;
  for (const RequestRecord& record : result.requests) kinds.push_back(KindOf(record));
  return kinds;
}

TEST_F(DriverTest, RecordsExactTimesOfOneRequest) {
  transport_.scripts = {Good()};
  const LoadResult result = Run(1);
  ASSERT_EQ(result.requests.size(), 1u);
  const RequestRecord& record = result.requests[0];
  EXPECT_EQ(KindOf(record), "accepted");
  EXPECT_EQ(record.times.scheduled, 0ms);
  EXPECT_EQ(record.times.sent, 0ms);
  EXPECT_EQ(record.times.first_byte, 10ms);
  EXPECT_EQ(record.times.first_token, 10ms);
  EXPECT_EQ(record.times.first_text, 10ms);
  EXPECT_EQ(record.times.last_token, 20ms);
  EXPECT_EQ(record.times.done, 21ms);
  EXPECT_EQ(record.times.closed, 22ms);
  EXPECT_EQ(record.http_status, 200);
  EXPECT_EQ(record.usage->completion_tokens, 2);
  EXPECT_EQ(record.finish_reason, "length");
  EXPECT_EQ(record.text_bytes, 2);
  EXPECT_EQ(record.chunks, 2);
  EXPECT_EQ(record.input_tokens, 3);
  EXPECT_EQ(record.output_tokens, 2);
  EXPECT_EQ(record.body_sha256, requests_[0].body_sha256);
  EXPECT_EQ(record.prompt_sha256, requests_[0].prompt_sha256);
  EXPECT_EQ(result.duration, 22ms);
  EXPECT_EQ(result.stopped, StopReason::kNone);
  EXPECT_THAT(result.streams, IsEmpty());
}

TEST_F(DriverTest, KeepsTheGapsBetweenOutputsOnlyWhereTheyAreAskedFor) {
  const auto script = [] {
    Script stream;
    stream.Head(9ms)
        .Body(10ms, kText)
        .Body(14ms, kText + kText, 1ms)
        .Body(20ms, kLastText + kUsage);
    return stream.Body(21ms, kDone).End(22ms);
  };
  transport_.scripts = {script()};
  EXPECT_THAT(Run(1).gaps_ms, IsEmpty());

  load_.keep_gaps = true;
  // The second of the two requests has its own, and a failed one has what it had.
  transport_.scripts = {script(), Refused(5ms), Good()};
  const LoadResult result = Run(3);
  // By arrival, which was 1 ms before the read; two that came together have none between them.
  EXPECT_THAT(result.gaps_ms, ElementsAre(ElementsAre(3, 0, 7), IsEmpty(), ElementsAre(10)));
}

TEST_F(DriverTest, TellsHowFarItIs) {
  Progress progress;
  load_.progress = &progress;
  load_.concurrency = 2;
  transport_.scripts = {Good(), Refused(5ms), Good()};
  Run(3);
  EXPECT_EQ(progress.sent, 3);
  EXPECT_EQ(progress.ended, 3);
  EXPECT_EQ(progress.failed, 1);
  EXPECT_EQ(progress.chunks, 4);
}

TEST_F(DriverTest, WhatIsInterruptedHasNoGaps) {
  load_.keep_gaps = true;
  load_.concurrency = 2;
  Script slow;
  slow.Head(1ms).Body(2ms, kText).Body(500ms, kText);
  transport_.scripts = {slow, Good(), slow};
  const LoadResult result = Run(3, [this] {
    return since_start() < 100ms ? StopSignal{} : StopSignal{StopReason::kInterrupted, "enough"};
  });
  ASSERT_EQ(result.requests.size(), 1U);
  EXPECT_EQ(result.requests[0].index, 1);
  EXPECT_THAT(result.gaps_ms, ElementsAre(ElementsAre(10)));
}

TEST_F(DriverTest, SendsTheBodyToTheUrl) {
  transport_.scripts = {Good()};
  Run(1);
  EXPECT_EQ(transport_.started[0].method, "POST");
  EXPECT_EQ(transport_.started[0].url, load_.url);
  EXPECT_EQ(transport_.started[0].body, requests_[0].body);
}

TEST_F(DriverTest, ASlotsNextRequestIsScheduledAtTheEndOfTheLast) {
  load_.concurrency = 2;
  transport_.scripts = {Good(30ms), Good(50ms), Good(40ms), Good(22ms)};
  const LoadResult result = Run(4);
  EXPECT_THAT(StartedMs(), ElementsAre(0, 0, 30, 50));
  EXPECT_EQ(result.requests[2].times.scheduled, 30ms);
  EXPECT_EQ(result.requests[2].times.first_text, 40ms);
  EXPECT_EQ(result.requests[3].times.scheduled, 50ms);
  EXPECT_EQ(result.requests[3].times.closed, 72ms);
  EXPECT_EQ(result.duration, 72ms);
  EXPECT_EQ(transport_.most_in_flight, 2);
}

TEST_F(DriverTest, StartsInOrderAndKeepsTheConcurrency) {
  load_.concurrency = 3;
  for (int i = 0; i < 20; ++i) {
    transport_.scripts.push_back(Good(std::chrono::milliseconds(22 + i * 7 % 13)));
  }
  const LoadResult result = Run(20);
  EXPECT_EQ(transport_.most_in_flight, 3);
  ASSERT_EQ(transport_.started.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(transport_.started[i].body, requests_[i].body);
    EXPECT_EQ(result.requests[i].index, static_cast<int>(i));
    EXPECT_EQ(*result.requests[i].times.sent, transport_.started[i].at - start_);
  }
}

TEST_F(DriverTest, FewerRequestsThanSlotsStartAtOnce) {
  load_.concurrency = 8;
  transport_.scripts = {Good(), Good()};
  EXPECT_EQ(Run(2).requests.size(), 2u);
  EXPECT_THAT(StartedMs(), ElementsAre(0, 0));
}

TEST_F(DriverTest, NoRequestsAreNoResult) {
  const LoadResult result = Run(0);
  EXPECT_THAT(result.requests, IsEmpty());
  EXPECT_EQ(result.duration, 0ms);
}

TEST_F(DriverTest, AFailedRequestKeepsItsRawBytesAndIsNotRetried) {
  transport_.scripts = {Good(), Refused(5ms), Good()};
  const LoadResult result = Run(3);
  EXPECT_THAT(Kinds(result), ElementsAre("accepted", "http_status", "accepted"));
  EXPECT_EQ(transport_.started.size(), 3u);
  ASSERT_EQ(result.streams.size(), 1u);
  EXPECT_EQ(result.streams[0].index, 1);
  EXPECT_EQ(result.streams[0].bytes, "busy");
  EXPECT_EQ(result.failures_in_a_row, 0);
}

TEST_F(DriverTest, KeepsAllStreamsWhereThePlanSaysSoAndSpoolsThem) {
  load_.keep_streams = plan::KeepStreams::kAll;
  load_.spool_folder = ::testing::TempDir();
  transport_.scripts = {Good(), Refused(5ms), Good()};
  const LoadResult result = Run(3);
  ASSERT_EQ(result.streams.size(), 3u);
  EXPECT_EQ(*result.streams[0].spooled->Read(), kText + kLastText + kUsage + kDone);
  EXPECT_EQ(*result.streams[1].spooled->Read(), "busy");
}

TEST_F(DriverTest, TransportEndsAreJudged) {
  const auto ending = [](TransferEnd::Kind kind) {
    Script script;
    script.End(1ms, {kind, "why", true});
    return script;
  };
  transport_.scripts = {ending(TransferEnd::Kind::kConnectFailed),
                        ending(TransferEnd::Kind::kBroken), ending(TransferEnd::Kind::kOverCap)};
  const LoadResult result = Run(3);
  EXPECT_THAT(Kinds(result), ElementsAre("transport", "transport", "over_cap"));
  EXPECT_EQ(result.requests[0].failure->detail, "no connection: why");
  EXPECT_EQ(result.client.new_connections, 3);
  EXPECT_EQ(result.failures_in_a_row, 3);
}

TEST_F(DriverTest, TheGuardStopsSendingAndLetsTheRestEnd) {
  load_.concurrency = 2;
  load_.consecutive_failures = 3;
  transport_.scripts = {Refused(1ms), Good(100ms), Refused(2ms), Refused(3ms)};
  const LoadResult result = Run(10);
  EXPECT_THAT(Kinds(result), ElementsAre("http_status", "accepted", "http_status", "http_status"));
  EXPECT_EQ(result.stopped, StopReason::kGuard);
  EXPECT_EQ(result.stop_detail,
            "3 failures in a row, the last of them http_status (HTTP 503: busy)");
  EXPECT_EQ(result.duration, 100ms);
}

TEST_F(DriverTest, ASuccessResetsTheGuard) {
  load_.consecutive_failures = 2;
  transport_.scripts = {Refused(1ms), Good(), Refused(1ms), Good(), Refused(1ms)};
  const LoadResult result = Run(5);
  EXPECT_EQ(result.stopped, StopReason::kNone);
  EXPECT_EQ(result.failures_in_a_row, 1);
}

TEST_F(DriverTest, TheGuardCountsOnFromTheLastRound) {
  load_.consecutive_failures = 3;
  load_.failures_in_a_row = 2;
  transport_.scripts = {Refused(1ms)};
  LoadResult result = Run(5);
  EXPECT_EQ(result.requests.size(), 1u);
  EXPECT_EQ(result.stopped, StopReason::kGuard);
  EXPECT_EQ(result.failures_in_a_row, 3);

  load_.failures_in_a_row = 3;
  result = Run(5);
  EXPECT_THAT(result.requests, IsEmpty());
  EXPECT_EQ(result.stopped, StopReason::kGuard);
}

TEST_F(DriverTest, WithoutAGuardAllAreSent) {
  transport_.answer = [](const auto&) { return Refused(1ms); };
  const LoadResult result = Run(50);
  EXPECT_EQ(result.requests.size(), 50u);
  EXPECT_EQ(result.stopped, StopReason::kNone);
  EXPECT_EQ(result.failures_in_a_row, 50);
}

TEST_F(DriverTest, ASilentServerIsStalledExactlyAtTheLimit) {
  load_.stall_limit = 300ms;
  Script script;
  script.Head(10ms).Body(100ms, kText).Body(401ms, kLastText).End(402ms);
  transport_.scripts = {script, Good()};
  const LoadResult result = Run(2);
  EXPECT_THAT(Kinds(result), ElementsAre("stalled", "accepted"));
  EXPECT_EQ(result.requests[0].times.closed, 400ms);
  EXPECT_EQ(result.requests[0].failure->detail,
            "stalled after 1 events with 1 bytes of text: nothing came for 300 ms");
  EXPECT_THAT(transport_.cancelled, ElementsAre(1));
  EXPECT_EQ(result.requests[1].times.scheduled, 400ms);
}

TEST_F(DriverTest, AnyBytePutsTheStallOff) {
  load_.stall_limit = 300ms;
  Script script;
  script.Head(299ms)
      .Body(598ms, ": ping\n\n")
      .Body(897ms, kText + kLastText + kUsage + kDone)
      .End(898ms);
  transport_.scripts = {script};
  EXPECT_THAT(Kinds(Run(1)), ElementsAre("accepted"));
}

TEST_F(DriverTest, TheDeadlineHoldsEvenWhileBytesCome) {
  load_.request_timeout = 1000ms;
  Script script;
  script.Head(1ms);
  for (int i = 1; i < 30; ++i) script.Body(i * 90ms, kText);
  transport_.scripts = {script};
  const LoadResult result = Run(1);
  EXPECT_THAT(Kinds(result), ElementsAre("deadline"));
  EXPECT_EQ(result.requests[0].times.closed, 1000ms);
  EXPECT_EQ(result.duration, 1000ms);
}

TEST_F(DriverTest, ASocketLeftOpenAfterDoneIsClosedAndAccepted) {
  Script script;
  script.Head(1ms).Body(10ms, kText + kLastText + kUsage + kDone);
  transport_.scripts = {script};
  const LoadResult result = Run(1);
  EXPECT_THAT(Kinds(result), ElementsAre("accepted"));
  EXPECT_THAT(result.requests[0].notes,
              ElementsAre("the socket stayed open after [DONE]: closed after 250 ms"));
  EXPECT_EQ(result.requests[0].times.last_token, 10ms);
  EXPECT_EQ(result.requests[0].times.closed, 260ms);
  EXPECT_THAT(transport_.cancelled, ElementsAre(1));
}

TEST_F(DriverTest, DataWithinTheLingerIsAFault) {
  Script script;
  script.Head(1ms).Body(10ms, kText + kLastText + kUsage + kDone).Body(259ms, kText);
  transport_.scripts = {script};
  EXPECT_THAT(Kinds(Run(1)), ElementsAre("after_done"));
}

TEST_F(DriverTest, DoneJustBeforeTheDeadlineIsInTime) {
  load_.request_timeout = 100ms;
  Script script;
  script.Head(1ms).Body(99ms, kText + kLastText + kUsage + kDone).End(150ms);
  transport_.scripts = {script};
  EXPECT_THAT(Kinds(Run(1)), ElementsAre("accepted"));
}

TEST_F(DriverTest, ABodyOverACapIsClosed) {
  load_.caps.body_bytes = 100;
  Script script;
  script.Head(1ms).Body(2ms, std::string(101, ':')).Body(3ms, "more").End(500ms);
  transport_.scripts = {script, script, script};
  const LoadResult result = Run(3);
  EXPECT_THAT(Kinds(result), ElementsAre("over_cap", "over_cap", "over_cap"));
  EXPECT_THAT(result.requests[0].failure->detail, HasSubstr("a body over 100 bytes"));
  EXPECT_EQ(result.duration, 6ms);
}

TEST_F(DriverTest, AsksWhetherToStopAtLeastEach100Ms) {
  Script silent;
  silent.Head(1ms).End(5000ms);
  transport_.scripts = {silent};
  std::vector<base::Instant> asked;
  Run(1, [&] {
    asked.push_back(clock_.now());
    return StopSignal{};
  });
  ASSERT_GE(asked.size(), 50u);
  EXPECT_EQ(asked.front(), start_);
  for (std::size_t i = 1; i < asked.size(); ++i) EXPECT_LE(asked[i] - asked[i - 1], 100ms);
}

TEST_F(DriverTest, ALostServiceEndsTheLoadAndFailsWhatIsInFlight) {
  load_.concurrency = 2;
  transport_.scripts = {Good(22ms), Good(5000ms), Good(5000ms)};
  const LoadResult result = Run(10, [&] {
    return since_start() < 200ms ? StopSignal{}
                                 : StopSignal{StopReason::kServiceLost, "exit code 3"};
  });
  EXPECT_THAT(Kinds(result), ElementsAre("accepted", "transport", "transport"));
  EXPECT_EQ(result.requests[1].failure->detail,
            "cancelled by the client after [DONE]: exit code 3");
  EXPECT_EQ(result.stopped, StopReason::kServiceLost);
  EXPECT_EQ(result.stop_detail, "exit code 3");
  EXPECT_LE(result.duration, 300ms);
  EXPECT_EQ(transport_.cancelled.size(), 2u);
}

TEST_F(DriverTest, AnInterruptionRecordsOnlyWhatEnded) {
  load_.concurrency = 2;
  load_.linger_limit = 10s;
  transport_.scripts = {Good(5000ms), Good(22ms), Good(5000ms)};
  const LoadResult result = Run(10, [&] {
    return since_start() < 200ms ? StopSignal{} : StopSignal{StopReason::kInterrupted, "signal 15"};
  });
  ASSERT_EQ(result.requests.size(), 1u);
  EXPECT_EQ(result.requests[0].index, 1);
  EXPECT_EQ(result.stopped, StopReason::kInterrupted);
  EXPECT_THAT(result.streams, IsEmpty());
  EXPECT_EQ(result.failures_in_a_row, 0);
}

TEST_F(DriverTest, AStopBeforeTheStartSendsNothing) {
  const LoadResult result = Run(3, [] { return StopSignal{StopReason::kInterrupted, "signal 2"}; });
  EXPECT_THAT(transport_.started, IsEmpty());
  EXPECT_EQ(result.stopped, StopReason::kInterrupted);
}

TEST_F(DriverTest, AStopDoesNotWaitBehindABusyStream) {
  Script busy;
  busy.Head(1ms);
  for (int i = 1; i < 2000; ++i) busy.Body(i * 1ms, kText);
  transport_.scripts = {busy};
  Run(1, [&] {
    return since_start() < 500ms ? StopSignal{} : StopSignal{StopReason::kServiceLost, "gone"};
  });
  EXPECT_LE(since_start(), 600ms);
}

std::vector<int> ScheduledMs(const LoadResult& result) {
  std::vector<int> times;
  for (const RequestRecord& record : result.requests) {
    times.push_back(static_cast<int>(*record.times.scheduled / 1ms));
  }
  return times;
}

TEST_F(DriverTest, AnOpenLoopSendsEachAtItsTime) {
  load_.concurrency = 10;
  load_.schedule = {3ms, 5ms, 5ms, 40ms};
  transport_.answer = [](const auto&) { return Good(); };
  const LoadResult result = Run(4);
  EXPECT_THAT(StartedMs(), ElementsAre(3, 5, 5, 40));
  EXPECT_THAT(ScheduledMs(result), ElementsAre(3, 5, 5, 40));
  EXPECT_EQ(result.requests[3].times.sent, 40ms);
  EXPECT_EQ(result.requests[3].times.first_byte, 50ms);
  EXPECT_EQ(transport_.most_in_flight, 3);
  EXPECT_EQ(result.duration, 62ms);
  EXPECT_TRUE(result.client.open_loop);
  EXPECT_EQ(result.client.held_back, 0);
  EXPECT_EQ(result.client.send_late_p99, 0ms);
  EXPECT_DOUBLE_EQ(result.client.asked, 3 / 0.037);
  EXPECT_DOUBLE_EQ(*result.client.delivered, 3 / 0.037);
}

TEST_F(DriverTest, ARequestThatFindsNoPlaceIsLateAndItsLatencyCountsFromItsTime) {
  load_.concurrency = 1;
  load_.schedule = {0ms, 5ms, 10ms, 100ms};
  transport_.answer = [](const auto&) { return Good(); };
  const LoadResult result = Run(4);
  EXPECT_THAT(StartedMs(), ElementsAre(0, 22, 44, 100));
  EXPECT_THAT(ScheduledMs(result), ElementsAre(0, 5, 10, 100));
  EXPECT_EQ(evidence::LatencyMs(result.requests[1], evidence::Metric::kTtft), 27);
  EXPECT_EQ(evidence::LatencyMs(result.requests[2], evidence::Metric::kTtft), 44);
  EXPECT_EQ(result.client.held_back, 2);
  EXPECT_EQ(result.client.send_late_p99, 17ms);  // 34 ms is the one outlier
}

// A server that answers nothing for a second: a client that waited for it would
// hide what everybody who came meanwhile had to wait.
TEST_F(DriverTest, AFrozenServerShowsInEveryLatencyOfAnOpenLoop) {
  load_.concurrency = 1000;
  load_.schedule.emplace();
  for (int i = 0; i < 200; ++i) load_.schedule->push_back(i * 10ms);
  transport_.answer = [&](const FakeTransport::Started& started) {
    const auto at = started.at - start_;
    const auto thaws = at >= 500ms && at < 1500ms ? 1500ms - at : 0ms;
    Script script;
    script.Head(thaws + 9ms).Body(thaws + 10ms, kText).Body(thaws + 20ms, kLastText + kUsage);
    return script.Body(thaws + 21ms, kDone).End(thaws + 22ms);
  };
  const LoadResult result = Run(200);
  ASSERT_EQ(result.requests.size(), 200u);
  for (int i = 0; i < 200; ++i) {
    const double stall = i >= 50 && i < 150 ? 1500 - 10 * i : 0;
    EXPECT_EQ(
        evidence::LatencyMs(result.requests[static_cast<std::size_t>(i)], evidence::Metric::kTtft),
        10 + stall);
  }
  EXPECT_EQ(result.client.held_back, 0);
}

TEST_F(DriverTest, TheDurationEndsTheSendingAndNotWhatIsInFlight) {
  load_.concurrency = 5;
  load_.duration = 50ms;
  load_.schedule = {0ms, 20ms, 49ms, 50ms, 51ms};
  transport_.answer = [](const auto&) { return Good(); };
  LoadResult result = Run(5);
  EXPECT_THAT(Kinds(result), ElementsAre("accepted", "accepted", "accepted"));
  EXPECT_EQ(result.duration, 71ms);
  EXPECT_EQ(result.stopped, StopReason::kNone);

  load_.concurrency = 1;
  load_.schedule.reset();
  transport_.started.clear();
  start_ = clock_.now();
  result = Run(5);
  EXPECT_THAT(StartedMs(), ElementsAre(0, 22, 44));
  EXPECT_EQ(result.duration, 66ms);
}

TEST_F(DriverTest, TheSlotsOfAClosedLoopComeInOverTheRamp) {
  load_.concurrency = 4;
  load_.ramp = 40ms;
  transport_.answer = [](const auto&) { return Good(100ms); };
  const LoadResult result = Run(6);
  EXPECT_THAT(StartedMs(), ElementsAre(0, 10, 20, 30, 100, 110));
  EXPECT_THAT(ScheduledMs(result), ElementsAre(0, 10, 20, 30, 100, 110));
}

TEST_F(DriverTest, TheGuardStopsAnOpenLoop) {
  load_.concurrency = 5;
  load_.consecutive_failures = 2;
  load_.schedule = {0ms, 10ms, 20ms, 30ms};
  transport_.answer = [](const auto&) { return Refused(1ms); };
  const LoadResult result = Run(4);
  EXPECT_EQ(result.requests.size(), 2u);
  EXPECT_EQ(result.stopped, StopReason::kGuard);
}

TEST_F(DriverTest, AStopEndsTheWaitForTheNextArrival) {
  load_.concurrency = 5;
  load_.schedule = {0ms, 3600s};
  transport_.answer = [](const auto&) { return Good(); };
  const LoadResult result = Run(2, [&] {
    return since_start() < 200ms ? StopSignal{} : StopSignal{StopReason::kInterrupted, "signal 2"};
  });
  EXPECT_EQ(result.requests.size(), 1u);
  EXPECT_LE(since_start(), 300ms);
}

TEST_F(DriverTest, AnAskedConcurrencyThatWasHeldIsDelivered) {
  load_.concurrency = 3;
  for (int i = 0; i < 12; ++i) transport_.scripts.push_back(Good((22 + i % 5) * 1ms));
  const LoadResult result = Run(12);
  EXPECT_FALSE(result.client.open_loop);
  EXPECT_EQ(result.client.asked, 3);
  EXPECT_DOUBLE_EQ(result.client.delivered.value_or(0), 3);
}

TEST_F(DriverTest, WhereAllAreSentAtOnceNothingIsSaidOfTheConcurrency) {
  load_.concurrency = 3;
  transport_.scripts = {Good(), Good(), Good()};
  EXPECT_EQ(Run(3).client.delivered, std::nullopt);
}

TEST_F(DriverTest, CountsReadsThatFoundSeveralTextsTooLate) {
  Script script;
  script.Head(1ms)
      .Body(10ms, kText, 9ms)          // late, but one text
      .Body(20ms, kText + kText, 5ms)  // two in one piece, in time
      .Body(30ms, kText + kText, 6ms)  // too late to tell them apart
      .Body(40ms, kText, 6ms)
      .Body(40ms, kText, 6ms)  // two pieces of the same read
      .Body(40ms, kText, 6ms)
      .Body(50ms, ": ping\n\n", 9ms)                // no text
      .Body(60ms, kLastText + kUsage + kDone, 9ms)  // one text
      .End(61ms);
  transport_.scripts = {script};
  const LoadResult result = Run(1);
  EXPECT_EQ(result.client.reads, 5);
  EXPECT_EQ(result.client.inexact_reads, 2);
  EXPECT_EQ(result.client.unstamped_reads, 0);
}

TEST_F(DriverTest, WithoutAStampSeveralTextsInOneReadAreInexact) {
  transport_.stamped = false;
  Script script;
  script.Head(1ms).Body(10ms, kText + kLastText + kUsage + kDone).End(11ms);
  transport_.scripts = {script};
  EXPECT_EQ(Run(1).client.inexact_reads, 1);
}

TEST_F(DriverTest, TimesAreTheArrivalsAndTheLagIsKept) {
  Script script;
  script.Head(9ms).Body(13ms, kText, 3ms).Body(20ms, kLastText + kUsage, 1ms).Body(21ms, kDone);
  transport_.scripts = {script.End(22ms)};
  const LoadResult result = Run(1);
  EXPECT_EQ(result.requests[0].times.first_text, 10ms);
  EXPECT_EQ(result.requests[0].times.last_token, 19ms);
  EXPECT_EQ(result.client.lag_p99, 1ms);  // 3 ms is the one outlier
}

TEST_F(DriverTest, ReadsWithoutAStampAreCounted) {
  transport_.stamped = false;
  transport_.scripts = {Good()};
  const LoadResult result = Run(1);
  EXPECT_EQ(result.client.reads, 2);
  EXPECT_EQ(result.client.unstamped_reads, 2);
  EXPECT_EQ(result.client.lag_p99, 0ms);
}

// The stall limit is about silence: a client that was held up itself finds the
// bytes waiting, and that they came long ago does not make the server silent.
TEST_F(DriverTest, ALateReadIsNoStall) {
  load_.stall_limit = 300ms;
  Script script;
  script.Head(10ms).Body(290ms, kText, 270ms).Body(500ms, kLastText + kUsage + kDone).End(501ms);
  transport_.scripts = {script};
  EXPECT_THAT(Kinds(Run(1)), ElementsAre("accepted"));
}

TEST_F(DriverTest, ASecretThatAServerEchoesIsNotKept) {
  load_.redact = "s3cret";
  transport_.scripts = {
      Script().Head(1ms, 401, "text/plain").Body(2ms, "bad token s3cret!").End(3ms)};
  const LoadResult result = Run(1);
  EXPECT_EQ(result.streams[0].bytes, "bad token ******!");
  EXPECT_EQ(result.requests[0].failure->detail, "HTTP 401: bad token ******!");
}

TEST_F(DriverTest, ATransportThatFailsIsAnErrorAndLeavesNothingInFlight) {
  transport_.scripts = {Good(), Good()};
  transport_.poll_error = "epoll: no";
  const auto requests = Requests(2);
  const auto result = RunLoad(transport_, clock_, load_, requests, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "epoll: no");
  EXPECT_EQ(transport_.in_flight(), 0);
}

}  // namespace
}  // namespace upgrade_gate::load
