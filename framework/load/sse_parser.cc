#include "framework/load/sse_parser.h"

#include <fmt/format.h>

#include <algorithm>

namespace upgrade_gate::load {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

bool SseParser::OverCap(std::string_view what, std::size_t cap) {
  over_cap_ = fmt::format("{} over {} bytes", what, cap);
  return false;
}

bool SseParser::Feed(std::string_view bytes, base::Instant at) {
  if (!over_cap_.empty()) return false;
  while (at_start_ && !bytes.empty()) {
    if (bytes.front() == kByteOrderMark[bom_bytes_]) {
      bytes.remove_prefix(1);
      if (++bom_bytes_ == kByteOrderMark.size()) at_start_ = false;
    } else {
      // It only began like a mark: those bytes belong to the first line.
      line_.assign(kByteOrderMark.substr(0, bom_bytes_));
      at_start_ = false;
    }
  }

  // Where the next LF and the next CR are; each is looked for only once, so that
  // a body with one kind of line end is not scanned again for every line.
  std::size_t lf = bytes.find('\n');
  std::size_t cr = bytes.find('\r');
  std::size_t begin = 0;
  while (begin < bytes.size()) {
    if (after_cr_) {
      after_cr_ = false;
      if (bytes[begin] == '\n') {
        if (++begin == bytes.size()) break;
      }
    }
    if (lf != bytes.npos && lf < begin) lf = bytes.find('\n', begin);
    if (cr != bytes.npos && cr < begin) cr = bytes.find('\r', begin);
    const std::size_t end = std::min({lf, cr, bytes.size()});
    const std::string_view piece = bytes.substr(begin, end - begin);
    if (line_.size() + piece.size() > caps_.line_bytes) return OverCap("a line", caps_.line_bytes);
    if (end == bytes.size()) {
      line_.append(piece);
      break;
    }
    // An event of one line of data that came whole, as nearly all do, is not copied.
    if (line_.empty() && !has_data_ && type_.empty() && piece.starts_with("data:") && end == lf &&
        end + 1 < bytes.size() && bytes[end + 1] == '\n') {
      const std::string_view value = piece.substr(piece.starts_with("data: ") ? 6 : 5);
      if (value.size() > caps_.event_bytes) return OverCap("an event", caps_.event_bytes);
      handler_({"message", value, at});
      begin = end + 2;
      continue;
    }
    if (line_.empty()) {
      Line(piece, at);
    } else {
      line_.append(piece);
      Line(line_, at);
      line_.clear();
    }
    if (!over_cap_.empty()) return false;
    after_cr_ = end == cr;
    begin = end + 1;
  }
  return true;
}

void SseParser::Line(std::string_view line, base::Instant at) {
  if (line.empty()) return Dispatch(at);
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value;
  if (colon != line.npos) {
    value = line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
  }
  if (field == "data") {
    if (data_.size() + (has_data_ ? 1 : 0) + value.size() > caps_.event_bytes) {
      OverCap("an event", caps_.event_bytes);
      return;
    }
    if (has_data_) data_.push_back('\n');
    data_.append(value);
    has_data_ = true;
  } else if (field == "event") {
    type_.assign(value);
  }
  // Comments (an empty field), `id`, `retry` and unknown fields carry nothing
  // that a request is judged by.
}

void SseParser::Dispatch(base::Instant at) {
  if (has_data_) {
    handler_({type_.empty() ? std::string_view("message") : std::string_view(type_), data_, at});
  }
  data_.clear();
  type_.clear();
  has_data_ = false;
}

std::string SseParser::unfinished() const {
  const bool nothing = line_.empty() || line_.starts_with(':');
  if (!has_data_) return nothing ? "" : line_;
  return nothing ? data_ : data_ + "\n" + line_;
}

void SseParser::Reset() {
  line_.clear();
  data_.clear();
  type_.clear();
  has_data_ = false;
  after_cr_ = false;
  bom_bytes_ = 0;
  at_start_ = true;
  over_cap_.clear();
}

}  // namespace upgrade_gate::load
