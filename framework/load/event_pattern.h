// Recognises the events of a stream that differ from an earlier one in their
// text alone: most of a stream. They need no JSON parser, which is what makes a
// client of a thousand streams fit on one core. Private.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace upgrade_gate::load {

class EventPattern {
 public:
  // Learns from the data of an event whose one output was the value of `key`
  // ("text", "content"), which the JSON parser read as `text`. Learns nothing where
  // the bytes could be read in another way: where the key stands more than once, or
  // where there is a backslash anywhere, so that a key or the text may be written
  // with escapes.
  void Learn(std::string_view data, std::string_view key, std::string_view text,
             std::size_t choice);
  // The text of an event that is the learned one with another text: valid UTF-8
  // without escapes, not empty. Nothing for every other event.
  std::optional<std::string_view> Match(std::string_view data) const;
  std::size_t choice() const { return choice_; }
  void Clear();

 private:
  std::string head_, tail_;  // before and after the text; both empty: nothing learned
  std::size_t choice_ = 0;
};

}  // namespace upgrade_gate::load
