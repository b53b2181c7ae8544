// The event-stream grammar of the HTML standard ("9.2.6 Interpreting an event
// stream"), incremental: any split of the bytes gives the same events.
//
// Pure: bytes and times in, events out. Not thread-safe; one parser a response.
// Bytes are passed on as they came: broken UTF-8 is for the reader of the data
// to judge, not replaced here.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "framework/base/clock.h"

namespace upgrade_gate::load {

struct SseEvent {
  std::string_view type;  // "message" unless an `event` field said otherwise
  std::string_view data;  // lines joined with LF; valid during the callback only
  base::Instant at;       // when the bytes that ended the event arrived
};

// Our own limits, in bytes without the line's end; exactly at a limit is allowed.
struct SseCaps {
  std::size_t line_bytes = std::size_t{1} << 20;
  std::size_t event_bytes = std::size_t{4} << 20;
};

class SseParser {
 public:
  using Handler = std::function<void(const SseEvent&)>;
  explicit SseParser(Handler handler, SseCaps caps = {})
      : handler_(std::move(handler)), caps_(caps) {}

  // False once a cap was exceeded; the parser then takes no more bytes and
  // `over_cap` says which: "a line over 1048576 bytes".
  bool Feed(std::string_view bytes, base::Instant at);
  const std::string& over_cap() const { return over_cap_; }
  // What the body's end would drop: the data of an event that no blank line has
  // ended, or an unfinished line. Empty: the body may end here without loss.
  std::string unfinished() const;
  // As new, for the next response; keeps its memory.
  void Reset();

 private:
  void Line(std::string_view line, base::Instant at);
  void Dispatch(base::Instant at);
  bool OverCap(std::string_view what, std::size_t cap);

  Handler handler_;
  SseCaps caps_;
  std::string line_;  // the unfinished line
  std::string data_;
  std::string type_;
  bool has_data_ = false;
  bool after_cr_ = false;      // a CR ended the last line: an LF that follows belongs to it
  std::size_t bom_bytes_ = 0;  // of a byte order mark, only skipped at the very start
  bool at_start_ = true;
  std::string over_cap_;
};

}  // namespace upgrade_gate::load
