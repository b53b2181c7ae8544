// From what was observed of a response to accepted or exactly one failure kind.
//
// Pure: the same observation always gives the same answer. The order in which
// the conditions are tried is fixed and documented in acceptance.cc, so that a
// response with several faults is always counted under the same kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/clock.h"
#include "framework/evidence/records.h"

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

// What was asked for.
struct Expectation {
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
};

// What came, filled in by ResponseReader. Times are absolute. Texts from the
// server are shortened and visible.
struct Observation {
  std::optional<int> http_status;
  std::string content_type;
  bool event_stream = false;  // `content_type` is text/event-stream, whatever its parameters
  std::optional<std::string> retry_after;
  std::optional<base::Instant> first_byte, first_token, first_text, last_token, done, closed;
  EndKind end = EndKind::kBroken;
  std::string end_detail;

  std::int64_t events = 0;  // valid events before [DONE]
  std::int64_t chunks = 0;  // that carried text
  std::int64_t text_bytes = 0;
  std::string finish_reason;  // the last nonempty one
  bool done_seen = false;
  std::string after_done;     // the first data after [DONE], quoted
  std::string in_band_error;  // empty: none
  std::string malformed;  // the first event that was not what the protocol promises: why, quoted
  // The last one; absent if any of them was wrong.
  std::optional<evidence::Usage> usage;
  std::string usage_problem;  // why `usage` is absent: "absent", "\"completion_tokens\" is -1", …
  std::string body_head;      // of a response that is not a stream
  std::string unfinished;     // an event that the end of the body cut off
  std::vector<std::string> notes;
};

// Nothing: accepted.
std::optional<evidence::Failure> Judge(const Expectation& expectation,
                                       const Observation& observation);

}  // namespace upgrade_gate::load
