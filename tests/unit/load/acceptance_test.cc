#include "framework/load/acceptance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace upgrade_gate::load {
namespace {

using evidence::FailureKind;

constexpr Expectation kAsked{.input_tokens = 8, .output_tokens = 4};

Observation Good() {
  Observation seen;
  seen.http_status = 200;
  seen.content_type = "text/event-stream";
  seen.event_stream = true;
  seen.first_byte = seen.first_text = seen.last_token = seen.done = seen.closed =
      base::Instant{} + std::chrono::seconds(1);
  seen.end = EndKind::kComplete;
  seen.events = 3;
  seen.chunks = 2;
  seen.text_bytes = 10;
  seen.finish_reason = "length";
  seen.done_seen = true;
  seen.usage = evidence::Usage{8, 4};
  return seen;
}

struct Fault {
  FailureKind kind;
  std::function<void(Observation&)> put;
};

// One of each kind, in the order in which a person would want to read them.
std::vector<Fault> FaultsInOrder() {
  return {
      {FailureKind::kHttpStatus, [](Observation& seen) { seen.http_status = 503; }},
      {FailureKind::kNotAStream, [](Observation& seen) { seen.event_stream = false; }},
      {FailureKind::kInBandError, [](Observation& seen) { seen.in_band_error = "x"; }},
      {FailureKind::kTransport, [](Observation& seen) { seen.end = EndKind::kBroken; }},
      {FailureKind::kMalformedEvent, [](Observation& seen) { seen.malformed = "x"; }},
      {FailureKind::kNoEvents, [](Observation& seen) { seen.events = 0; }},
      {FailureKind::kAfterDone, [](Observation& seen) { seen.after_done = "x"; }},
      {FailureKind::kMissingDone,
       [](Observation& seen) {
         seen.done_seen = false;
         seen.after_done.clear();
       }},
      {FailureKind::kEmptyOutput, [](Observation& seen) { seen.text_bytes = 0; }},
      {FailureKind::kNoFinishReason, [](Observation& seen) { seen.finish_reason.clear(); }},
      {FailureKind::kUsageInvalid,
       [](Observation& seen) {
         seen.usage.reset();
         seen.usage_problem = "absent";
       }},
      {FailureKind::kInputLength,
       [](Observation& seen) {
         if (seen.usage) seen.usage->prompt_tokens = 9;
       }},
      {FailureKind::kOutputLength,
       [](Observation& seen) {
         if (seen.usage) seen.usage->completion_tokens = 3;
       }},
  };
}

TEST(Judge, AcceptsWhatHasEverything) {
  EXPECT_FALSE(Judge(kAsked, Good()));
}

TEST(Judge, AcceptsALingeringSocket) {
  Observation seen = Good();
  seen.end = EndKind::kLingered;
  EXPECT_FALSE(Judge(kAsked, seen));
}

TEST(Judge, EachFaultAloneHasItsKindAndADetail) {
  for (const Fault& fault : FaultsInOrder()) {
    Observation seen = Good();
    fault.put(seen);
    const auto failure = Judge(kAsked, seen);
    ASSERT_TRUE(failure) << evidence::Name(fault.kind);
    EXPECT_EQ(failure->kind, fault.kind) << evidence::Name(fault.kind);
    EXPECT_NE(failure->detail, "");
  }
}

TEST(Judge, OfTwoFaultsTheEarlierInTheOrderCounts) {
  const std::vector<Fault> faults = FaultsInOrder();
  for (std::size_t first = 0; first < faults.size(); ++first) {
    for (std::size_t second = first + 1; second < faults.size(); ++second) {
      // [DONE] cannot be missing where data came after it.
      if (faults[first].kind == FailureKind::kAfterDone &&
          faults[second].kind == FailureKind::kMissingDone) {
        continue;
      }
      Observation seen = Good();
      faults[second].put(seen);
      faults[first].put(seen);
      const auto failure = Judge(kAsked, seen);
      ASSERT_TRUE(failure);
      EXPECT_EQ(evidence::Name(failure->kind), evidence::Name(faults[first].kind))
          << "with " << evidence::Name(faults[second].kind);
    }
  }
}

TEST(Judge, EveryEndOfOursHasItsKindWhateverIsMissing) {
  const std::vector<std::pair<EndKind, FailureKind>> ends = {
      {EndKind::kConnectFailed, FailureKind::kTransport},
      {EndKind::kBroken, FailureKind::kTransport},
      {EndKind::kCancelled, FailureKind::kTransport},
      {EndKind::kStalled, FailureKind::kStalled},
      {EndKind::kDeadline, FailureKind::kDeadline},
      {EndKind::kOverCap, FailureKind::kOverCap}};
  for (const auto& [end, kind] : ends) {
    Observation nothing;
    nothing.end = end;
    nothing.end_detail = "why";
    auto failure = Judge(kAsked, nothing);
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->kind, kind);
    EXPECT_THAT(failure->detail, ::testing::HasSubstr("why"));
    Observation all = Good();
    all.end = end;
    failure = Judge(kAsked, all);
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->kind, kind);
  }
}

TEST(Judge, NoResponseIsNeverAccepted) {
  Observation nothing;
  nothing.end = EndKind::kComplete;
  const auto failure = Judge(kAsked, nothing);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, FailureKind::kTransport);
  EXPECT_TRUE(Judge({}, Observation{}));
}

std::string DetailOf(const Observation& seen) {
  const auto failure = Judge(kAsked, seen);
  return failure ? failure->detail : "accepted";
}

TEST(Judge, SaysTheEvidenceInWords) {
  Observation seen = Good();
  seen.usage->completion_tokens = 2;
  seen.finish_reason = "stop";
  EXPECT_EQ(DetailOf(seen), R"(asked for 4 output tokens, usage says 2, finish_reason "stop")");

  seen.text_bytes = 0;
  EXPECT_EQ(DetailOf(seen),
            "no text in 3 events; asked for 4 output tokens, usage says 2 output "
            "tokens, finish_reason \"stop\"");

  seen = Good();
  seen.done_seen = false;
  seen.end = EndKind::kBroken;
  seen.end_detail = "Recv failure: Connection reset by peer";
  EXPECT_EQ(DetailOf(seen),
            "broken after 3 events with 10 bytes of text: Recv failure: Connection reset by peer");

  seen = Observation{};
  seen.end = EndKind::kStalled;
  EXPECT_EQ(DetailOf(seen), "stalled before any response");
  seen.http_status = 200;
  seen.event_stream = true;
  EXPECT_EQ(DetailOf(seen), "stalled after the response's head, before its body");

  seen = Good();
  seen.http_status = 429;
  seen.retry_after = "30";
  seen.body_head = "slow down";
  EXPECT_EQ(DetailOf(seen), "HTTP 429, Retry-After \"30\": slow down");
}

}  // namespace
}  // namespace upgrade_gate::load
