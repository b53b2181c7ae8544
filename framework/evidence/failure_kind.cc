#include "framework/evidence/failure_kind.h"

#include "framework/base/result.h"

namespace upgrade_gate::evidence {
namespace {

struct Row {
  FailureKind kind;
  std::string_view name;
  std::string_view description;
};

constexpr std::array kRows = {
    Row{FailureKind::kHttpStatus, "http_status", "an HTTP status other than 200"},
    Row{FailureKind::kTransport, "transport",
        "connection refused, reset or cut, or a body with broken framing"},
    Row{FailureKind::kStalled, "stalled", "nothing came for longer than the stall limit"},
    Row{FailureKind::kDeadline, "deadline", "the request took longer than its deadline"},
    Row{FailureKind::kNotAStream, "not_a_stream",
        "HTTP 200, but not the media type that was asked for"},
    Row{FailureKind::kNoEvents, "no_events", "HTTP 200 and a stream without one valid event"},
    Row{FailureKind::kMalformedEvent, "malformed_event",
        "an event whose data is not the JSON that the protocol promises"},
    Row{FailureKind::kInBandError, "in_band_error", "an error inside an HTTP 200 stream"},
    Row{FailureKind::kEmptyOutput, "empty_output", "HTTP 200, [DONE] and usage, but no text"},
    Row{FailureKind::kMissingDone, "missing_done", "the stream ended cleanly, but without [DONE]"},
    Row{FailureKind::kAfterDone, "after_done", "more data after [DONE]"},
    Row{FailureKind::kToolCallInvalid, "tool_call_invalid",
        "a tool call whose pieces do not make one call with arguments in JSON"},
    Row{FailureKind::kNoFinishReason, "no_finish_reason", "no choice said why it ended"},
    Row{FailureKind::kUsageInvalid, "usage_invalid",
        "usage absent, null, negative, falling or not a number"},
    Row{FailureKind::kInputLength, "input_length",
        "usage counts other prompt tokens than were sent"},
    Row{FailureKind::kOutputLength, "output_length",
        "fewer or more output tokens than were asked for"},
    Row{FailureKind::kOverCap, "over_cap", "longer than a declared cap of the client"},
};

static_assert(kRows.size() == kAllFailureKinds.size());
static_assert([] {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].kind != kAllFailureKinds[i]) return false;
  }
  return true;
}());

const Row& RowOf(FailureKind kind) {
  for (const Row& row : kRows) {
    if (row.kind == kind) return row;
  }
  UG_CHECK(false && "a failure kind without a name");
  return kRows[0];
}

}  // namespace

std::string_view Name(FailureKind kind) {
  return RowOf(kind).name;
}

std::string_view Describe(FailureKind kind) {
  return RowOf(kind).description;
}

std::optional<FailureKind> FailureKindFrom(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

}  // namespace upgrade_gate::evidence
