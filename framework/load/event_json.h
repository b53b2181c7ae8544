// JSON that a server sent, read by simdjson. Private.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "framework/base/text.h"
#include "framework/load/quote.h"

namespace upgrade_gate::load {

// Turns data into a DOM, which lives until the next one of this thread: of thousands of
// open streams, each with memory of its own for this, only one event is read at a time.
// Integers over 64 bits are read as doubles; nesting over kMaxJsonDepth is DEPTH_ERROR.
simdjson::error_code ParseEvent(std::string_view data, simdjson::dom::element& root);

template <typename Value>
std::string Shown(const Value& value) {
  return base::Shorten(base::Visible(simdjson::minify(value)), kQuoteBytes);
}

// The members of an object that we read, each with the place of its value. A
// doubled one would be read differently by different clients, so it is not
// guessed which is meant.
struct Wanted {
  std::string_view key;
  std::optional<simdjson::dom::element>* value;
  bool keep_null = false;
};

// The name of a doubled member, or nothing. What is null counts as absent,
// unless it is to be kept.
template <std::size_t kCount>
std::string_view ReadMembers(simdjson::dom::object object, const Wanted (&wanted)[kCount]) {
  std::string_view doubled;
  unsigned seen = 0;
  static_assert(kCount <= 32);
  for (const simdjson::dom::key_value_pair field : object) {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (field.key != wanted[i].key) continue;
      if ((seen & 1U << i) != 0) doubled = wanted[i].key;
      seen |= 1U << i;
      if (wanted[i].keep_null || !field.value.is_null()) *wanted[i].value = field.value;
      break;
    }
  }
  return doubled;
}

}  // namespace upgrade_gate::load
