#include "framework/load/acceptance.h"

#include <fmt/format.h>

#include "framework/base/text.h"

namespace upgrade_gate::load {
namespace {

using evidence::Failure;
using evidence::FailureKind;

std::string WithDetail(std::string text, const std::string& detail) {
  return detail.empty() ? text : text + ": " + detail;
}

std::string Reason(const Observation& seen) {
  return seen.finish_reason.empty() ? "no finish_reason"
                                    : fmt::format("finish_reason \"{}\"", seen.finish_reason);
}

std::string UsageInWords(const Observation& seen) {
  return seen.usage ? fmt::format("usage says {} output tokens", seen.usage->completion_tokens)
                    : "usage: " + seen.usage_problem;
}

// How far the response had come, for an end that was not its own.
std::string Progress(const Observation& seen) {
  if (!seen.http_status) return "before any response";
  if (!seen.first_byte) return "after the response's head, before its body";
  if (seen.done_seen) return "after [DONE]";
  return fmt::format("after {} events with {} bytes of text", seen.events, seen.text_bytes);
}

std::optional<Failure> Ended(FailureKind kind, std::string_view how, const Observation& seen) {
  return Failure{kind, WithDetail(fmt::format("{} {}", how, Progress(seen)), seen.end_detail)};
}

std::optional<Failure> JudgeEnd(const Observation& seen) {
  switch (seen.end) {
    case EndKind::kConnectFailed:
      return Failure{FailureKind::kTransport, WithDetail("no connection", seen.end_detail)};
    case EndKind::kBroken:
      return Ended(FailureKind::kTransport, "broken", seen);
    case EndKind::kCancelled:
      return Ended(FailureKind::kTransport, "cancelled by the client", seen);
    case EndKind::kStalled:
      return Ended(FailureKind::kStalled, "stalled", seen);
    case EndKind::kDeadline:
      return Ended(FailureKind::kDeadline, "deadline", seen);
    case EndKind::kOverCap:
      return Ended(FailureKind::kOverCap, "closed by the client", seen);
    case EndKind::kComplete:
    case EndKind::kLingered:
      break;
  }
  if (!seen.http_status) return Failure{FailureKind::kTransport, "ended without an HTTP response"};
  return std::nullopt;
}

}  // namespace

// The order, by what a person would want to read first:
//  1. http_status: the server refused in its own words; the rest follows from it.
//  2. not_a_stream: something else answered, so nothing below means anything.
//  3. in_band_error: the server's own words again. They come before the end of
//     the response because a server that reports a dead engine often drops the
//     connection next, and the report is the cause.
//  4. transport, stalled, deadline, over_cap: the response is a part of one;
//     whatever it lacks, it lacks because of that.
//  5. malformed_event, no_events: it came whole but cannot be understood; the
//     malformed event is quoted, which says more than "no events".
//  6. after_done, missing_done: the stream's frame is wrong (never both).
//  7. empty_output: the frame is right and there is no text; before what else
//     such a response lacks or claims (no reason, usage of 128 tokens).
//  8. no_finish_reason, usage_invalid: text that came with a gap in its contract.
//  9. input_length, output_length: both rest on valid usage. The input first:
//     another prompt than was sent explains another length.
std::optional<Failure> Judge(const Expectation& expectation, const Observation& seen) {
  if (seen.http_status && *seen.http_status != 200) {
    std::string detail = fmt::format("HTTP {}", *seen.http_status);
    if (seen.retry_after) detail += fmt::format(", Retry-After \"{}\"", *seen.retry_after);
    return Failure{FailureKind::kHttpStatus, WithDetail(detail, seen.body_head)};
  }
  if (seen.http_status && !seen.event_stream) {
    return Failure{
        FailureKind::kNotAStream,
        WithDetail(seen.content_type.empty()
                       ? std::string("HTTP 200 without a content type")
                       : fmt::format("HTTP 200 with content type \"{}\"", seen.content_type),
                   seen.body_head)};
  }
  if (!seen.in_band_error.empty()) {
    return Failure{FailureKind::kInBandError,
                   fmt::format("{}; beside it {} valid events with {} bytes of text",
                               seen.in_band_error, seen.events, seen.text_bytes)};
  }
  if (auto failure = JudgeEnd(seen)) return failure;
  if (!seen.malformed.empty()) return Failure{FailureKind::kMalformedEvent, seen.malformed};
  const std::string cut_event =
      seen.unfinished.empty() || seen.done_seen
          ? ""
          : fmt::format("; the body ended inside an event: {}", seen.unfinished);
  if (seen.events == 0) {
    return Failure{FailureKind::kNoEvents, (seen.done_seen    ? "nothing but [DONE]"
                                            : seen.first_byte ? "a body without a valid event"
                                                              : "an empty body") +
                                               cut_event};
  }
  if (!seen.after_done.empty()) {
    return Failure{FailureKind::kAfterDone, "after [DONE] came " + seen.after_done};
  }
  if (!seen.done_seen) {
    return Failure{FailureKind::kMissingDone,
                   fmt::format("the body ended without [DONE] after {} events, {}, {}{}",
                               seen.events, UsageInWords(seen), Reason(seen), cut_event)};
  }
  if (seen.text_bytes == 0) {
    return Failure{
        FailureKind::kEmptyOutput,
        fmt::format("no text in {} events; asked for {} output tokens, {}, {}", seen.events,
                    expectation.output_tokens, UsageInWords(seen), Reason(seen))};
  }
  if (seen.finish_reason.empty()) {
    return Failure{FailureKind::kNoFinishReason, fmt::format("no finish_reason in {} events, {}",
                                                             seen.events, UsageInWords(seen))};
  }
  if (!seen.usage) {
    return Failure{FailureKind::kUsageInvalid,
                   fmt::format("usage: {}; {} events carried text, {}", seen.usage_problem,
                               seen.chunks, Reason(seen))};
  }
  if (seen.usage->prompt_tokens != expectation.input_tokens) {
    return Failure{FailureKind::kInputLength,
                   fmt::format("sent {} input tokens, usage says {}", expectation.input_tokens,
                               seen.usage->prompt_tokens)};
  }
  if (seen.usage->completion_tokens != expectation.output_tokens) {
    return Failure{
        FailureKind::kOutputLength,
        fmt::format("asked for {} output tokens, usage says {}, {}", expectation.output_tokens,
                    seen.usage->completion_tokens, Reason(seen))};
  }
  return std::nullopt;
}

}  // namespace upgrade_gate::load
