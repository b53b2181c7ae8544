// What a server sent, shown in a message. Private.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "framework/base/text.h"

namespace upgrade_gate::load {

inline constexpr std::size_t kQuoteBytes = 200;

// Cut before escaping: a hostile megabyte is not made visible first.
inline std::string Quote(std::string_view text) {
  const std::string visible = base::Visible(text.substr(0, 4 * kQuoteBytes));
  return "\"" + base::Shorten(visible, kQuoteBytes) + "\"";
}

}  // namespace upgrade_gate::load
