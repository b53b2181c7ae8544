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
  seen.media_type_ok = true;
  seen.first_byte = seen.first_text = seen.last_token = seen.done = seen.closed =
      base::Instant{} + std::chrono::seconds(1);
  seen.end = EndKind::kComplete;
  seen.events = 3;
  seen.chunks = 2;
  seen.text_bytes = 10;
  seen.choices_with_output = seen.choices_finished = 1;
  seen.finish_reason = "length";
  seen.done_seen = true;
  seen.usage = evidence::Usage{8, 4};
  return seen;
}

std::optional<evidence::Failure> Judged(const Expectation& asked, const Observation& seen) {
  return Judge(asked, seen).failure;
}

struct Fault {
  FailureKind kind;
  std::function<void(Observation&)> put;
};

// One of each kind, in the order in which a person would want to read them.
std::vector<Fault> FaultsInOrder() {
  return {
      {FailureKind::kHttpStatus, [](Observation& seen) { seen.http_status = 503; }},
      {FailureKind::kNotAStream, [](Observation& seen) { seen.media_type_ok = false; }},
      {FailureKind::kInBandError, [](Observation& seen) { seen.in_band_error = "x"; }},
      {FailureKind::kTransport, [](Observation& seen) { seen.end = EndKind::kBroken; }},
      {FailureKind::kStalled, [](Observation& seen) { seen.end = EndKind::kStalled; }},
      {FailureKind::kDeadline, [](Observation& seen) { seen.end = EndKind::kDeadline; }},
      {FailureKind::kOverCap, [](Observation& seen) { seen.end = EndKind::kOverCap; }},
      {FailureKind::kMalformedEvent, [](Observation& seen) { seen.malformed = "x"; }},
      {FailureKind::kNoEvents, [](Observation& seen) { seen.events = 0; }},
      {FailureKind::kAfterDone, [](Observation& seen) { seen.after_done = "x"; }},
      {FailureKind::kMissingDone,
       [](Observation& seen) {
         seen.done_seen = false;
         seen.after_done.clear();
       }},
      {FailureKind::kEmptyOutput, [](Observation& seen) { seen.choices_with_output = 0; }},
      {FailureKind::kToolCallInvalid, [](Observation& seen) { seen.tool_call_problem = "x"; }},
      {FailureKind::kNoFinishReason, [](Observation& seen) { seen.choices_finished = 0; }},
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
  EXPECT_FALSE(Judged(kAsked, Good()));
}

TEST(Judge, AcceptsALingeringSocket) {
  Observation seen = Good();
  seen.end = EndKind::kLingered;
  EXPECT_FALSE(Judged(kAsked, seen));
}

TEST(Judge, EachFaultAloneHasItsKindAndADetail) {
  for (const Fault& fault : FaultsInOrder()) {
    Observation seen = Good();
    fault.put(seen);
    const auto failure = Judged(kAsked, seen);
    ASSERT_TRUE(failure) << evidence::Name(fault.kind);
    EXPECT_EQ(failure->kind, fault.kind) << evidence::Name(fault.kind);
    EXPECT_NE(failure->detail, "");
  }
}

TEST(Judge, OfTwoFaultsTheEarlierInTheOrderCounts) {
  const std::vector<Fault> faults = FaultsInOrder();
  for (std::size_t first = 0; first < faults.size(); ++first) {
    for (std::size_t second = first + 1; second < faults.size(); ++second) {
      // [DONE] cannot be missing where data came after it. A response ends once,
      // and what is put last stays.
      const auto is_end = [&](std::size_t i) {
        return faults[i].kind == FailureKind::kTransport ||
               faults[i].kind == FailureKind::kStalled ||
               faults[i].kind == FailureKind::kDeadline || faults[i].kind == FailureKind::kOverCap;
      };
      if (is_end(first) && is_end(second)) continue;
      if (faults[first].kind == FailureKind::kAfterDone &&
          faults[second].kind == FailureKind::kMissingDone) {
        continue;
      }
      Observation seen = Good();
      faults[second].put(seen);
      faults[first].put(seen);
      const auto failure = Judged(kAsked, seen);
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
    auto failure = Judged(kAsked, nothing);
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->kind, kind);
    EXPECT_THAT(failure->detail, ::testing::HasSubstr("why"));
    Observation all = Good();
    all.end = end;
    failure = Judged(kAsked, all);
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->kind, kind);
  }
}

TEST(Judge, NoResponseIsNeverAccepted) {
  Observation nothing;
  nothing.end = EndKind::kComplete;
  const auto failure = Judged(kAsked, nothing);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, FailureKind::kTransport);
  EXPECT_TRUE(Judged({}, Observation{}));
}

std::string DetailOf(const Observation& seen) {
  const auto failure = Judged(kAsked, seen);
  return failure ? failure->detail : "accepted";
}

TEST(Judge, SaysTheEvidenceInWords) {
  Observation seen = Good();
  seen.usage->completion_tokens = 2;
  seen.finish_reason = "stop";
  EXPECT_EQ(DetailOf(seen), R"(asked for 4 output tokens, usage says 2, finish_reason "stop")");

  seen.choices_with_output = 0;
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
  seen.media_type_ok = true;
  EXPECT_EQ(DetailOf(seen), "stalled after the response's head, before its body");

  seen = Good();
  seen.http_status = 429;
  seen.retry_after = "30";
  seen.body_head = "slow down";
  EXPECT_EQ(DetailOf(seen), "HTTP 429, Retry-After \"30\": slow down");
}

std::string Kind(const Outcome& outcome) {
  return outcome.failure ? std::string(evidence::Name(outcome.failure->kind)) : "accepted";
}

// What the lenient profile lets pass, and nothing else: with a note each.
TEST(Judge, TheLenientProfileNotesThreeIrregularitiesAndFailsAllElse) {
  Expectation lenient = kAsked;
  lenient.profile = plan::Acceptance::kLenient;
  for (const Fault& fault : FaultsInOrder()) {
    Observation seen = Good();
    fault.put(seen);
    const Outcome outcome = Judge(lenient, seen);
    const bool noted = fault.kind == FailureKind::kNoFinishReason;
    EXPECT_EQ(Kind(outcome), noted ? "accepted" : evidence::Name(fault.kind));
    EXPECT_EQ(outcome.notes.size(), noted ? 1u : 0u);
  }
  Observation seen = Good();
  seen.padded_done = "\"[DONE] \"";
  seen.tool_call_without_arguments = true;
  seen.notes = {"from the reader"};
  EXPECT_EQ(Kind(Judge(kAsked, seen)), "malformed_event");
  EXPECT_THAT(
      Judge(lenient, seen).notes,
      ::testing::ElementsAre("from the reader", "white space around the terminator: \"[DONE] \"",
                             "a tool call without arguments, not even {}"));
  seen.padded_done.clear();
  EXPECT_EQ(Kind(Judge(kAsked, seen)), "tool_call_invalid");
  EXPECT_EQ(Kind(Judge(lenient, seen)), "accepted");
}

TEST(Judge, ANaturalLengthIsBoundedAboveAndNotCutByAnotherLimit) {
  Expectation asked = kAsked;
  asked.stop = plan::OutputStop::kNatural;
  const auto kind = [&](std::int64_t tokens, const char* reason) {
    Observation seen = Good();
    seen.usage->completion_tokens = tokens;
    seen.finish_reason = reason;
    return Kind(Judge(asked, seen));
  };
  EXPECT_EQ(kind(1, "stop"), "accepted");
  EXPECT_EQ(kind(4, "stop"), "accepted");
  EXPECT_EQ(kind(4, "length"), "accepted");
  EXPECT_EQ(kind(5, "stop"), "output_length");
  EXPECT_EQ(kind(3, "length"), "output_length");
  EXPECT_EQ(kind(0, "stop"), "output_length");
  Observation seen = Good();
  seen.usage->completion_tokens = 5;
  EXPECT_EQ(Judge(asked, seen).failure->detail,
            "asked for at most 4 output tokens, usage says 5, finish_reason \"length\"");
}

TEST(Judge, TheInputMayBeExactAtLeastOrUnknown) {
  Expectation asked = kAsked;
  const auto kind = [&](std::int64_t tokens) {
    Observation seen = Good();
    seen.usage->prompt_tokens = tokens;
    return Kind(Judge(asked, seen));
  };
  EXPECT_EQ(kind(9), "input_length");
  asked.input = InputCount::kAtLeast;
  EXPECT_EQ(kind(9), "accepted");
  EXPECT_EQ(kind(7), "input_length");
  asked.input_tokens.reset();
  EXPECT_EQ(kind(0), "accepted");
}

TEST(Judge, EveryChoiceMustHaveOutputAndAReason) {
  Expectation asked = kAsked;
  asked.form.choices = 2;
  Observation seen = Good();
  seen.usage->completion_tokens = 8;
  EXPECT_EQ(Kind(Judge(asked, seen)), "empty_output");
  EXPECT_EQ(Judge(asked, seen).failure->detail,
            "no text in 1 of 2 choices, 3 events; asked for 4 output tokens for each of 2 choices, "
            "usage says 8 output tokens, finish_reason \"length\"");
  seen.choices_with_output = 2;
  EXPECT_EQ(Kind(Judge(asked, seen)), "no_finish_reason");
  seen.choices_finished = 2;
  EXPECT_EQ(Kind(Judge(asked, seen)), "accepted");
  seen.usage->completion_tokens = 4;
  EXPECT_EQ(Kind(Judge(asked, seen)), "output_length");
}

TEST(Judge, ACaseMayAllowAnEmptyAnswer) {
  Expectation asked = kAsked;
  asked.stop = plan::OutputStop::kNatural;
  asked.allow_empty_output = true;
  Observation seen = Good();
  seen.choices_with_output = 0;
  seen.finish_reason = "stop";
  for (const std::int64_t tokens : {0, 1}) {
    seen.usage->completion_tokens = tokens;
    EXPECT_EQ(Kind(Judge(asked, seen)), "accepted");
  }
}

TEST(Judge, TokenIdsThatDoNotAddUpAreNoted) {
  Observation seen = Good();
  seen.token_ids = 3;
  EXPECT_THAT(Judge(kAsked, seen).notes,
              ::testing::ElementsAre("3 token_ids, usage says 4 output tokens"));
  seen.token_ids = 4;
  EXPECT_THAT(Judge(kAsked, seen).notes, ::testing::IsEmpty());
}

TEST(Judge, OneBodyNeedsNoTerminator) {
  Expectation asked = kAsked;
  asked.form.stream = false;
  Observation seen = Good();
  seen.done_seen = false;
  EXPECT_EQ(Kind(Judge(asked, seen)), "accepted");
}

}  // namespace
}  // namespace upgrade_gate::load
