#include "framework/load/acceptance.h"

#include <fmt/format.h>

#include <utility>

namespace upgrade_gate::load {
namespace {

using evidence::Failure;
using evidence::FailureKind;
using plan::OutputStop;

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

// "4 output tokens", "4 output tokens for each of 2 choices"
std::string Asked(const Expectation& asked) {
  std::string text =
      fmt::format("{}{} output tokens", asked.stop == OutputStop::kNatural ? "at most " : "",
                  asked.output_tokens);
  if (asked.form.choices > 1) text += fmt::format(" for each of {} choices", asked.form.choices);
  return text;
}

// Each of the following returns what it found, in words, or nothing.

std::string FindStatus(const Expectation&, const Observation& seen) {
  if (!seen.http_status || *seen.http_status == 200) return "";
  std::string detail = fmt::format("HTTP {}", *seen.http_status);
  if (seen.retry_after) detail += fmt::format(", Retry-After \"{}\"", *seen.retry_after);
  return WithDetail(detail, seen.body_head);
}

std::string FindMediaType(const Expectation&, const Observation& seen) {
  if (!seen.http_status || seen.media_type_ok) return "";
  return WithDetail(seen.content_type.empty()
                        ? std::string("HTTP 200 without a content type")
                        : fmt::format("HTTP 200 with content type \"{}\"", seen.content_type),
                    seen.body_head);
}

std::string FindInBandError(const Expectation&, const Observation& seen) {
  if (seen.in_band_error.empty()) return "";
  return fmt::format("{}; beside it {} valid events with {} bytes of text", seen.in_band_error,
                     seen.events, seen.text_bytes);
}

std::string Ended(std::string_view how, const Observation& seen) {
  return WithDetail(fmt::format("{} {}", how, Progress(seen)), seen.end_detail);
}

std::string FindTransport(const Expectation&, const Observation& seen) {
  switch (seen.end) {
    case EndKind::kConnectFailed:
      return WithDetail("no connection", seen.end_detail);
    case EndKind::kBroken:
      return Ended("broken", seen);
    case EndKind::kCancelled:
      return Ended("cancelled by the client", seen);
    case EndKind::kStalled:
    case EndKind::kDeadline:
    case EndKind::kOverCap:
      return "";
    case EndKind::kComplete:
    case EndKind::kLingered:
      break;
  }
  return seen.http_status ? "" : "ended without an HTTP response";
}

std::string FindStall(const Expectation&, const Observation& seen) {
  return seen.end == EndKind::kStalled ? Ended("stalled", seen) : "";
}

std::string FindDeadline(const Expectation&, const Observation& seen) {
  return seen.end == EndKind::kDeadline ? Ended("deadline", seen) : "";
}

std::string FindOverCap(const Expectation&, const Observation& seen) {
  return seen.end == EndKind::kOverCap ? Ended("closed by the client", seen) : "";
}

std::string FindMalformed(const Expectation&, const Observation& seen) {
  return seen.malformed;
}

std::string FindPaddedDone(const Expectation&, const Observation& seen) {
  return seen.padded_done.empty() ? "" : "white space around the terminator: " + seen.padded_done;
}

std::string CutEvent(const Observation& seen) {
  return seen.unfinished.empty() || seen.done_seen
             ? ""
             : fmt::format("; the body ended inside an event: {}", seen.unfinished);
}

std::string FindNoEvents(const Expectation&, const Observation& seen) {
  if (seen.events > 0) return "";
  return (seen.done_seen    ? "nothing but [DONE]"
          : seen.first_byte ? "a body without a valid event"
                            : "an empty body") +
         CutEvent(seen);
}

std::string FindAfterDone(const Expectation&, const Observation& seen) {
  return seen.after_done.empty() ? "" : "after [DONE] came " + seen.after_done;
}

std::string FindMissingDone(const Expectation& asked, const Observation& seen) {
  if (seen.done_seen || !asked.form.stream) return "";
  return fmt::format("the body ended without [DONE] after {} events, {}, {}{}", seen.events,
                     UsageInWords(seen), Reason(seen), CutEvent(seen));
}

std::string FindEmpty(const Expectation& asked, const Observation& seen) {
  if (asked.allow_empty_output || seen.choices_with_output >= asked.form.choices) return "";
  return fmt::format(
      "no text in {}{} events; asked for {}, {}, {}",
      seen.choices_with_output == 0
          ? ""
          : fmt::format("{} of {} choices, ", asked.form.choices - seen.choices_with_output,
                        asked.form.choices),
      seen.events, Asked(asked), UsageInWords(seen), Reason(seen));
}

std::string FindToolCallProblem(const Expectation&, const Observation& seen) {
  return seen.tool_call_problem;
}

std::string FindToolCallWithoutArguments(const Expectation&, const Observation& seen) {
  return seen.tool_call_without_arguments ? "a tool call without arguments, not even {}" : "";
}

std::string FindNoReason(const Expectation& asked, const Observation& seen) {
  if (seen.choices_finished >= asked.form.choices) return "";
  return fmt::format(
      "no finish_reason in {}{} events, {}",
      asked.form.choices == 1
          ? ""
          : fmt::format("{} of {} choices, ", asked.form.choices - seen.choices_finished,
                        asked.form.choices),
      seen.events, UsageInWords(seen));
}

std::string FindUsageProblem(const Expectation&, const Observation& seen) {
  if (seen.usage) return "";
  return fmt::format("usage: {}; {} events carried text, {}", seen.usage_problem, seen.chunks,
                     Reason(seen));
}

// The rules below rest on valid usage: FindUsageProblem comes before them and
// always fails.

std::string FindInputLength(const Expectation& asked, const Observation& seen) {
  if (!asked.input_tokens) return "";
  const std::int64_t counted = seen.usage->prompt_tokens;
  const bool exact = asked.input == InputCount::kExact;
  if (exact ? counted == *asked.input_tokens : counted >= *asked.input_tokens) return "";
  return fmt::format("sent {}{} input tokens, usage says {}", exact ? "" : "at least ",
                     *asked.input_tokens, counted);
}

std::string FindOutputLength(const Expectation& asked, const Observation& seen) {
  const std::int64_t counted = seen.usage->completion_tokens;
  const std::int64_t most = asked.output_tokens * asked.form.choices;
  bool right = counted == most;
  if (asked.stop == OutputStop::kNatural) {
    // "length" below the limit: the server had another limit than the request.
    const bool cut = seen.finish_reason == "length" && asked.form.choices == 1;
    right =
        counted <= most && (counted > 0 || asked.allow_empty_output) && (!cut || counted == most);
  }
  if (right) return "";
  return fmt::format("asked for {}, usage says {}, {}", Asked(asked), counted, Reason(seen));
}

std::string FindTokenIdCount(const Expectation&, const Observation& seen) {
  if (seen.token_ids == 0 || seen.token_ids == seen.usage->completion_tokens) return "";
  return fmt::format("{} token_ids, usage says {} output tokens", seen.token_ids,
                     seen.usage->completion_tokens);
}

enum class Effect { kFail, kNote };

struct Rule {
  FailureKind kind;
  Effect strict, lenient;
  std::string (*find)(const Expectation&, const Observation&);
};

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
//  7. empty_output: the frame is right and there is no output; before what else
//     such a response lacks or claims (no reason, usage of 128 tokens).
//  8. tool_call_invalid, no_finish_reason, usage_invalid: output that came with
//     a gap in its contract.
//  9. input_length, output_length: both rest on valid usage. The input first:
//     another prompt than was sent explains another length.
constexpr Rule kRules[] = {
    {FailureKind::kHttpStatus, Effect::kFail, Effect::kFail, FindStatus},
    {FailureKind::kNotAStream, Effect::kFail, Effect::kFail, FindMediaType},
    {FailureKind::kInBandError, Effect::kFail, Effect::kFail, FindInBandError},
    {FailureKind::kTransport, Effect::kFail, Effect::kFail, FindTransport},
    {FailureKind::kStalled, Effect::kFail, Effect::kFail, FindStall},
    {FailureKind::kDeadline, Effect::kFail, Effect::kFail, FindDeadline},
    {FailureKind::kOverCap, Effect::kFail, Effect::kFail, FindOverCap},
    {FailureKind::kMalformedEvent, Effect::kFail, Effect::kFail, FindMalformed},
    {FailureKind::kMalformedEvent, Effect::kFail, Effect::kNote, FindPaddedDone},
    {FailureKind::kNoEvents, Effect::kFail, Effect::kFail, FindNoEvents},
    {FailureKind::kAfterDone, Effect::kFail, Effect::kFail, FindAfterDone},
    {FailureKind::kMissingDone, Effect::kFail, Effect::kFail, FindMissingDone},
    {FailureKind::kEmptyOutput, Effect::kFail, Effect::kFail, FindEmpty},
    {FailureKind::kToolCallInvalid, Effect::kFail, Effect::kFail, FindToolCallProblem},
    {FailureKind::kToolCallInvalid, Effect::kFail, Effect::kNote, FindToolCallWithoutArguments},
    {FailureKind::kNoFinishReason, Effect::kFail, Effect::kNote, FindNoReason},
    {FailureKind::kUsageInvalid, Effect::kFail, Effect::kFail, FindUsageProblem},
    {FailureKind::kInputLength, Effect::kFail, Effect::kFail, FindInputLength},
    {FailureKind::kOutputLength, Effect::kFail, Effect::kFail, FindOutputLength},
    {FailureKind::kOutputLength, Effect::kNote, Effect::kNote, FindTokenIdCount},
};

}  // namespace

Outcome Judge(const Expectation& expectation, const Observation& observation) {
  Outcome outcome;
  outcome.notes = observation.notes;
  for (const Rule& rule : kRules) {
    std::string found = rule.find(expectation, observation);
    if (found.empty()) continue;
    const Effect effect =
        expectation.profile == plan::Acceptance::kStrict ? rule.strict : rule.lenient;
    if (effect == Effect::kFail) {
      outcome.failure = Failure{rule.kind, std::move(found)};
      return outcome;
    }
    outcome.notes.push_back(std::move(found));
  }
  return outcome;
}

}  // namespace upgrade_gate::load
