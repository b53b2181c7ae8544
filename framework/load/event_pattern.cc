#include "framework/load/event_pattern.h"

#include <simdjson.h>

#include <algorithm>

namespace upgrade_gate::load {
namespace {

constexpr std::size_t kMostBytes = 4096;  // remembered of an event

}  // namespace

void EventPattern::Learn(std::string_view data, std::string_view key, std::string_view text,
                         std::size_t choice) {
  Clear();
  if (data.size() - text.size() > kMostBytes || data.find('\\') != data.npos) return;
  // Without escapes a quote, the key, a quote and a colon are a key and nothing else.
  const auto find_key = [&](std::size_t from) {
    for (; (from = data.find(key, from)) != data.npos; ++from) {
      const std::size_t end = from + key.size();
      if (from > 0 && data[from - 1] == '"' && data.substr(end, 2) == "\":") return end + 2;
    }
    return data.npos;
  };
  std::size_t begin = find_key(0);
  if (begin == data.npos || find_key(begin) != data.npos) return;
  begin = data.find_first_not_of(" \t\n", begin);
  if (begin == data.npos || data[begin] != '"' || data.substr(begin + 1, text.size()) != text) {
    return;
  }
  ++begin;
  const std::string_view tail = data.substr(begin + text.size());
  if (!tail.starts_with('"')) return;
  head_ = data.substr(0, begin);
  tail_ = tail;
  choice_ = choice;
}

std::optional<std::string_view> EventPattern::Match(std::string_view data) const {
  if (tail_.empty() || data.size() <= head_.size() + tail_.size() || !data.starts_with(head_) ||
      !data.ends_with(tail_)) {
    return std::nullopt;
  }
  const std::string_view text =
      data.substr(head_.size(), data.size() - head_.size() - tail_.size());
  unsigned char all = 0;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\') return std::nullopt;
    all |= static_cast<unsigned char>(c);
  }
  if (all >= 0x80 && !simdjson::validate_utf8(text.data(), text.size())) return std::nullopt;
  return text;
}

void EventPattern::Clear() {
  head_.clear();
  tail_.clear();
}

}  // namespace upgrade_gate::load
