// The failure kinds of a request: their one home.
//
// A request is accepted only with HTTP 200, the stream terminator, nonempty
// text, valid usage and the requested output length. Anything else is exactly
// one of these kinds; a failed request stays in the denominator and has no
// latency sample.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace upgrade_gate::evidence {

enum class FailureKind {
  kHttpStatus,       // a status other than 200; never retried
  kTransport,        // connection refused, reset, cut body, broken framing
  kStalled,          // nothing came for longer than the stall limit; we closed it
  kDeadline,         // the whole request took longer than its deadline; we closed it
  kNotAStream,       // 200, but not the media type that was asked for
  kNoEvents,         // 200, a stream, but not one valid event in it
  kMalformedEvent,   // an event, or a whole body, that is not the JSON the protocol promises
  kInBandError,      // an error object or an `error` event inside a 200
  kEmptyOutput,      // everything looks right and there is no text, reasoning or tool call
  kMissingDone,      // the body ended cleanly without the stream terminator
  kAfterDone,        // more data after the terminator
  kToolCallInvalid,  // a tool call that cannot be put together from its pieces
  kNoFinishReason,   // a choice never said why it ended
  kUsageInvalid,     // usage absent, null, negative, not a number, or falling
  kInputLength,      // usage counts other prompt tokens than were sent
  kOutputLength,     // fewer or more tokens than were asked for
  kOverCap,          // longer than a declared cap of ours; our side's fault (INFRA)
};

inline constexpr std::array kAllFailureKinds = {
    FailureKind::kHttpStatus,     FailureKind::kTransport,    FailureKind::kStalled,
    FailureKind::kDeadline,       FailureKind::kNotAStream,   FailureKind::kNoEvents,
    FailureKind::kMalformedEvent, FailureKind::kInBandError,  FailureKind::kEmptyOutput,
    FailureKind::kMissingDone,    FailureKind::kAfterDone,    FailureKind::kToolCallInvalid,
    FailureKind::kNoFinishReason, FailureKind::kUsageInvalid, FailureKind::kInputLength,
    FailureKind::kOutputLength,   FailureKind::kOverCap,
};

// "empty_output": the name in plans, evidence and reports.
std::string_view Name(FailureKind kind);
// "HTTP 200, [DONE] and usage, but no text": for people.
std::string_view Describe(FailureKind kind);
std::optional<FailureKind> FailureKindFrom(std::string_view name);

}  // namespace upgrade_gate::evidence
