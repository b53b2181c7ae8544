// From what was observed of a response to accepted or exactly one failure kind.
//
// Pure: the same observation always gives the same answer. The conditions are
// the rows of one table in acceptance.cc, which also fixes the order in which
// they are tried, so that a response with several faults is always counted under
// the same kind, and says what each profile makes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/clock.h"
#include "framework/evidence/records.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::load {

// How the transport saw the response end.
enum class EndKind {
  kComplete,       // the body ended as its framing promised
  kConnectFailed,  // refused, unreachable
  kBroken,         // reset, cut short, or broken framing
  kStalled,        // we closed it: nothing came for longer than the stall limit
  kDeadline,       // we closed it: the request's time was up
  kOverCap,        // we closed it: longer than a declared cap
  kLingered,       // we closed it: [DONE] had come and the socket stayed open (linger limit)
  kCancelled,      // we closed it: the round was stopped
};

// What kind of response was asked for: what the reader reads it as.
struct ResponseForm {
  plan::Api api = plan::Api::kCompletions;
  bool stream = true;
  int choices = 1;  // n of the request
};

enum class InputCount {
  kExact,    // usage must count just these
  kAtLeast,  // a chat template adds tokens of its own
};

// What was asked for.
struct Expectation {
  std::optional<std::int64_t> input_tokens = {};  // absent: not known before the answer
  std::int64_t output_tokens = 0;                 // of each choice; with kNatural the most
  ResponseForm form = {};
  InputCount input = InputCount::kExact;
  plan::OutputStop stop = plan::OutputStop::kFixed;
  bool allow_empty_output = false;
  plan::Acceptance profile = plan::Acceptance::kStrict;
};

// What came, filled in by ResponseReader. Times are absolute. Texts from the
// server are shortened and visible. Of a response that is no stream, the whole
// body is the one event.
struct Observation {
  std::optional<int> http_status;
  std::string content_type;
  bool media_type_ok = false;  // what the form demands, whatever its parameters
  std::optional<std::string> retry_after;
  // Output is text, reasoning text or a piece of a tool call. Its first moments
  // are of a stream only: in one body nothing comes before the rest.
  std::optional<base::Instant> first_byte;
  std::optional<base::Instant> first_token;  // of any output
  std::optional<base::Instant> first_text;   // of text that is no reasoning
  std::optional<base::Instant> last_token;   // of any output
  std::optional<base::Instant> done, closed;
  EndKind end = EndKind::kBroken;
  std::string end_detail;

  std::int64_t events = 0;  // valid events before [DONE]
  std::int64_t chunks = 0;  // that carried output
  std::int64_t text_bytes = 0;
  std::int64_t reasoning_bytes = 0;
  // "reasoning_content", "reasoning" or both, joined by "+"; empty: none came.
  std::string reasoning_field;
  int tool_calls = 0;
  std::string tool_call_problem;             // empty: none
  bool tool_call_without_arguments = false;  // joined, they are the empty text
  std::int64_t token_ids = 0;                // of all choices, where the server sends them
  int choices_with_output = 0;
  int choices_finished = 0;   // with a nonempty finish_reason
  std::string finish_reason;  // the last nonempty one
  bool done_seen = false;
  std::string padded_done;    // [DONE] with white space around it, quoted; empty: none
  std::string after_done;     // the first data after [DONE], quoted
  std::string in_band_error;  // empty: none
  std::string malformed;  // the first event that was not what the protocol promises: why, quoted
  // The last one; absent if any of them was wrong.
  std::optional<evidence::Usage> usage;
  std::string usage_problem;  // why `usage` is absent: "absent", "\"completion_tokens\" is -1", …
  std::string body_head;      // of a response of the wrong status or media type
  std::string unfinished;     // an event that the end of the body cut off
  std::vector<std::string> notes;
};

struct Outcome {
  std::optional<evidence::Failure> failure;  // absent: accepted
  // What does not fail the request: the observation's notes, and what the
  // profile lets pass.
  std::vector<std::string> notes;
};

Outcome Judge(const Expectation& expectation, const Observation& observation);

}  // namespace upgrade_gate::load
