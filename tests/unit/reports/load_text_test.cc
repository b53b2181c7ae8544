#include "reports/text/load_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/load_rounds.h"
#include "tests/unit/reports/hand_values.h"

namespace upgrade_gate::text {
namespace {

using reports_test::ExpectGolden;
using reports_test::kHostile;
using test_support::FailedRequest;
using test_support::HandRounds;
using ::testing::HasSubstr;
using ::testing::Not;

LoadPage HandPage() {
  LoadPage page;
  page.url = "http://127.0.0.1:8000/v1/completions";
  page.model = "tiny";
  page.load = "2 requests in flight; 2 rounds of 4 requests";
  page.input = "100 tokens: synthetic token ids, seed 7";
  page.output = "4 tokens";
  page.started_at = "2026-11-29T21:40:05.123Z";
  page.numbers = evidence::SummarizeLoad(
      HandRounds(), {FailedRequest(0, evidence::FailureKind::kStalled, "")}, 8);
  page.conditions = {
      {"ttft.p95 > 150ms", gates::Verdict::kFail, "it is 153 ms (max of 3–4)"},
      {"failures > 20%", gates::Verdict::kPass, "it is 1 of 8 requests (12.50 %)"},
  };
  page.decision = gates::Decision::kReject;
  page.reason = "1 of 2 conditions holds: ttft.p95 > 150ms";
  return page;
}

TEST(LoadText, IsShownWhole) {
  ExpectGolden("load.txt", RenderLoad(HandPage(), Color::kNever));
}

TEST(LoadText, OneRoundThatWasInterruptedAndAClientThatWasHurt) {
  LoadPage page = HandPage();
  auto rounds = HandRounds();
  rounds.resize(1);
  rounds[0].record.client->open_loop = true;
  rounds[0].record.client->send_late_p99 = std::chrono::milliseconds(30);
  rounds[0].record.client->new_connections = 2;
  page.numbers = evidence::SummarizeLoad(rounds, {}, 8);
  page.conditions = {{"ttft.p95 > 150ms", gates::Verdict::kInconclusive,
                      "it is 103 ms (max of 4), but the client hurt what it measured"}};
  page.incomplete = "interrupted in round 1 of 2: what was in flight is not counted";
  page.decision = gates::Decision::kInconclusive;
  page.reason = page.incomplete + "; so far the client hurt its numbers";
  ExpectGolden("load-incomplete.txt", RenderLoad(page, Color::kNever));
}

TEST(LoadText, NothingSucceeded) {
  LoadPage page = HandPage();
  evidence::LoadRound round;
  round.record.round = 1;
  round.record.duration = std::chrono::milliseconds(20);
  round.record.client.emplace();
  round.record.requests = {FailedRequest(0, evidence::FailureKind::kHttpStatus, "HTTP 404")};
  round.gaps_ms.resize(1);
  page.numbers = evidence::SummarizeLoad({round}, {}, 1);
  const std::string out = RenderLoad(page, Color::kNever);
  EXPECT_THAT(out, HasSubstr("  TTFT           –    –    –  no value\n"));
  EXPECT_THAT(out, HasSubstr("  http_status (an HTTP status other than 200): 1/1 (100.00 %)\n"
                             "    the first: HTTP 404\n"));
}

TEST(LoadText, WhatAServerSaysCannotActOnATerminal) {
  LoadPage page = HandPage();
  page.url = page.model = kHostile;
  auto rounds = HandRounds();
  rounds[1].record.requests[2].failure->detail = kHostile;
  page.numbers = evidence::SummarizeLoad(rounds, {}, 8);
  const std::string out = RenderLoad(page, Color::kNever);
  EXPECT_THAT(out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(RenderLoad(HandPage(), Color::kAlways), HasSubstr("\x1b[1;31mFAILED\x1b[0m"));
}

}  // namespace
}  // namespace upgrade_gate::text
