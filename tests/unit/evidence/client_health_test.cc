#include "framework/evidence/client_health.h"

#include <algorithm>

#include "tests/unit/evidence/evidence_test_support.h"

namespace upgrade_gate::evidence {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

ClientHealth Good() {
  ClientHealth health;
  health.asked = 8;
  health.delivered = 7.9;
  health.send_late_p99 = 80us;
  health.reads = 10'000;
  health.lag_p99 = 300us;
  health.cpu_share = 0.1;
  return health;
}
ClientHealth GoodOpen() {
  ClientHealth health = Good();
  health.open_loop = true;
  return health;
}

std::vector<std::string> FaultsOf(const ClientHealth& health, std::optional<double> ttft_ms = 50) {
  std::vector<std::string> lines;
  for (const ClientFinding& finding : FindClientFaults(health, ttft_ms)) {
    lines.push_back(std::string(Name(finding.fault)) + ": " + finding.sentence);
  }
  return lines;
}

TEST(ClientHealthTest, ASoundClientHasNeitherFaultsNorNotes) {
  EXPECT_THAT(FaultsOf(Good()), IsEmpty());
  EXPECT_THAT(FaultsOf(GoodOpen(), std::nullopt), IsEmpty());
  EXPECT_THAT(FaultsOf(ClientHealth{}, std::nullopt), IsEmpty());
  EXPECT_THAT(ClientNotes(Good()), IsEmpty());
}

TEST(ClientHealthTest, OneInAHundredInexactReadsIsAllowed) {
  ClientHealth health = Good();
  health.inexact_reads = 100;
  EXPECT_THAT(FaultsOf(health), IsEmpty());
  health.inexact_reads = 101;
  EXPECT_THAT(
      FaultsOf(health),
      ElementsAre(
          "client_bound: 1.0 % of 10000 reads were so late that several texts have one stamp, "
          "more than 1 %: give the client a core of its own"));
}

TEST(ClientHealthTest, AFewInexactReadsSayNothingOfAShortRound) {
  ClientHealth health = Good();
  health.reads = 90;
  health.inexact_reads = 10;
  EXPECT_THAT(FaultsOf(health), IsEmpty());
  health.inexact_reads = 11;
  EXPECT_EQ(FaultsOf(health).size(), 1U);
}

TEST(ClientHealthTest, AnOpenLoopMayBeLateByAMillisecondOrAHundredthOfTheTtft) {
  ClientHealth health = GoodOpen();
  health.send_late_p99 = 1ms;
  EXPECT_THAT(FaultsOf(health), IsEmpty());
  health.send_late_p99 = 1'010us;
  EXPECT_THAT(FaultsOf(health),
              ElementsAre("client_bound: requests were sent late: P99 1.01 ms, more than 1.00 ms: "
                          "give the client a core of its own"));
  EXPECT_THAT(FaultsOf(health, std::nullopt), ::testing::SizeIs(1));
  EXPECT_THAT(FaultsOf(health, 101), IsEmpty());
  // A closed loop has no schedule to be late against.
  health.open_loop = false;
  EXPECT_THAT(FaultsOf(health), IsEmpty());
}

TEST(ClientHealthTest, TheAskedLoadMustHaveBeenDelivered) {
  ClientHealth health = GoodOpen();
  health.asked = 10;
  health.delivered = 9.5;
  EXPECT_THAT(FaultsOf(health), IsEmpty());
  health.delivered = 9.4;
  EXPECT_THAT(FaultsOf(health),
              ElementsAre("load_not_delivered: 9.4 requests/s were sent, asked for were 10"));
  health.delivered = std::nullopt;
  EXPECT_THAT(FaultsOf(health), IsEmpty());
  health.held_back = 1;
  EXPECT_THAT(FaultsOf(health),
              ElementsAre("load_not_delivered: 1 requests were held back, since as many as allowed "
                          "were in flight: the server does not keep up with the rate, or "
                          "max_in_flight is too small"));
}

TEST(ClientHealthTest, AClosedLoopIsNotDeliveredOnlyWhereTheClientWasLate) {
  ClientHealth health = Good();
  health.delivered = 4;  // a server that refuses at once
  EXPECT_THAT(FaultsOf(health), IsEmpty());
  health.send_late_p99 = 2ms;
  EXPECT_THAT(FaultsOf(health),
              ElementsAre("load_not_delivered: 4 requests were in flight on average, asked for "
                          "were 8"));
}

TEST(ClientHealthTest, NotesMakeNothingInvalid) {
  ClientHealth health = Good();
  health.lag_p99 = 1'500us;
  health.unstamped_reads = 3;
  health.cpu_share = 0.51;
  health.cpu_pressure = 0.26;
  health.new_connections = 2;
  health.connect_max = 120us;
  health.retransmits = 4;
  EXPECT_THAT(FaultsOf(health), IsEmpty());
  EXPECT_THAT(
      ClientNotes(health),
      ElementsAre("read late: P99 1.50 ms (arrivals are the kernel's)",
                  "3 of 10000 reads without a kernel stamp", "a client thread used 51 % of a core",
                  "for 26 % of the time somebody on the client's machine waited for a CPU",
                  "2 connections made while measuring, the slowest in 0.12 ms",
                  "4 TCP segments sent again"));
}

ClientHealth Odd() {
  ClientHealth health = GoodOpen();
  health.delivered = 7.25;
  health.held_back = 1;
  health.inexact_reads = 2;
  health.unstamped_reads = 3;
  health.threads = 4;
  health.new_connections = 5;
  health.connect_max = 6us;
  health.retransmits = 7;
  health.cpu_pressure = 0.125;
  return health;
}

TEST(ClientHealthTest, IsInTheRoundAndTheSummaryAsItWasWritten) {
  const TempFolder folder;
  const Layout layout(folder.path());
  RoundRecord round = RoundOf("baseline", 1, 1, {Accepted(0)});
  round.client = Odd();
  ASSERT_EQ(ErrorOf(WriteRound(layout, round, {})), "(no error)");
  const auto rounds = ReadRounds(layout, false);
  ASSERT_TRUE(rounds) << ErrorOf(rounds);
  ASSERT_TRUE(rounds->at(0).client);
  const ClientHealth& read = *rounds->at(0).client;
  EXPECT_TRUE(read.open_loop);
  EXPECT_EQ(read.asked, 8);
  EXPECT_EQ(read.delivered, 7.25);
  EXPECT_EQ(read.held_back, 1);
  EXPECT_EQ(read.send_late_p99, 80us);
  EXPECT_EQ(read.reads, 10'000);
  EXPECT_EQ(read.inexact_reads, 2);
  EXPECT_EQ(read.unstamped_reads, 3);
  EXPECT_EQ(read.lag_p99, 300us);
  EXPECT_EQ(read.cpu_share, 0.1);
  EXPECT_EQ(read.threads, 4);
  EXPECT_EQ(read.new_connections, 5);
  EXPECT_EQ(read.connect_max, 6us);
  EXPECT_EQ(read.retransmits, 7);
  EXPECT_EQ(read.cpu_pressure, 0.125);

  const auto summary = Summarize(CaptureOf(), {BootOf("baseline", 1)}, *rounds, {"1k-512-c1"});
  ASSERT_TRUE(summary) << ErrorOf(summary);
  const std::string text = WriteSummary(*summary);
  const auto again = ReadSummary(text);
  ASSERT_TRUE(again) << ErrorOf(again);
  EXPECT_EQ(WriteSummary(*again), text);
  EXPECT_EQ(again->cases.at(0).arms.at("baseline").rounds.at(0).client->retransmits, 7);
}

// Evidence of before stays as it is, byte for byte.
TEST(ClientHealthTest, ARoundWithoutItHasNoSuchMember) {
  const TempFolder folder;
  const Layout layout(folder.path());
  ASSERT_EQ(ErrorOf(WriteRound(layout, RoundOf("baseline", 1, 1, {Accepted(0)}), {})),
            "(no error)");
  const std::string json = Get(layout.round("1k-512-c1", 1, "baseline", 1) / "round.json");
  EXPECT_EQ(json.find("client"), std::string::npos);
  EXPECT_FALSE(ReadRounds(layout, false)->at(0).client);
}

TEST(ClientHealthTest, ABrokenOneIsAnError) {
  const auto reading = [](std::string_view from, std::string_view to) {
    const TempFolder folder;
    const Layout layout(folder.path());
    RoundRecord round = RoundOf("baseline", 1, 1, {Accepted(0)});
    round.client = Odd();
    EXPECT_EQ(ErrorOf(WriteRound(layout, round, {})), "(no error)");
    Replace(layout.round("1k-512-c1", 1, "baseline", 1) / "round.json", from, to);
    return ErrorOf(ReadRounds(layout, false));
  };
  EXPECT_THAT(reading("\"load\": \"open\"", "\"load\": \"half\""),
              ::testing::HasSubstr("\"load\" is \"half\", neither open nor closed"));
  EXPECT_THAT(reading("\"inexact_reads\": 2", "\"inexact_reads\": 10001"),
              ::testing::HasSubstr("inexact_reads"));
  EXPECT_THAT(reading("\"threads\": 4", "\"threads\": 0"), ::testing::HasSubstr("threads"));
  EXPECT_THAT(reading("\"held_back\"", "\"held_front\""), ::testing::HasSubstr("held_back"));
}

}  // namespace
}  // namespace upgrade_gate::evidence
