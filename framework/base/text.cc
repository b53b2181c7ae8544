#include "framework/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace upgrade_gate::base {
namespace {

// Decodes one code point; length 0 for an invalid sequence (overlong forms,
// surrogates and values over U+10FFFF are invalid).
struct Decoded {
  char32_t value = 0;
  std::size_t length = 0;
};

Decoded DecodeUtf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  std::size_t length = 0;
  char32_t value = 0;
  char32_t least = 0;
  if ((first & 0xe0) == 0xc0) {
    length = 2, value = first & 0x1fU, least = 0x80;
  } else if ((first & 0xf0) == 0xe0) {
    length = 3, value = first & 0x0fU, least = 0x800;
  } else if ((first & 0xf8) == 0xf0) {
    length = 4, value = first & 0x07U, least = 0x10000;
  } else {
    return {};
  }
  if (text.size() < length) return {};
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3fU);
  }
  if (value < least || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return {};
  return {value, length};
}

bool IsHostile(char32_t c) {
  if (c < 0x20 || (c >= 0x7f && c <= 0x9f)) return true;                    // C0, DEL, C1
  if ((c & 0xfffe) == 0xfffe || (c >= 0xfdd0 && c <= 0xfdef)) return true;  // noncharacters
  if (c == 0x200e || c == 0x200f || c == 0x061c) return true;               // direction marks
  if (c >= 0x202a && c <= 0x202e) return true;                              // embeddings, overrides
  if (c >= 0x2066 && c <= 0x2069) return true;                              // isolates
  return c == 0x2028 || c == 0x2029 || c == 0xfeff;                         // separators, BOM
}

}  // namespace

std::string Visible(std::string_view text, bool keep_lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Decoded decoded = DecodeUtf8(text);
    if (decoded.length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    const char32_t c = decoded.value;
    if (keep_lines && (c == '\n' || c == '\t')) {
      out += static_cast<char>(c);
    } else if (c < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else if (IsHostile(c)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, decoded.length);
    }
    text.remove_prefix(decoded.length);
  }
  return out;
}

std::string NeutralizeCommands(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool line_start = true;  // only blanks so far: CI systems trim them
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (line_start && rest.starts_with("::")) out += '\\';
    out += text[i];
    if (rest.starts_with("##vso[") || rest.starts_with("##[") || rest.starts_with("##teamcity[") ||
        rest.starts_with("[[ATTACHMENT|") || rest.starts_with("<CTest") ||
        rest.starts_with("<Dart")) {
      out += '\\';
    }
    line_start = text[i] == '\n' || (line_start && (text[i] == ' ' || text[i] == '\t'));
  }
  return out;
}

std::string ShellWord(std::string_view word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:@%+=,").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string Shorten(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  constexpr std::string_view kEllipsis = "…";
  std::size_t end = limit > kEllipsis.size() ? limit - kEllipsis.size() : 0;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + std::string(kEllipsis);
}

std::optional<std::string> Nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i);
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t substitute = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
      }
    }
    if (row.back() < best_distance && row.back() < std::max(word.size(), candidate.size())) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto nearest = Nearest(word, candidates);
  return nearest ? " (did you mean \"" + *nearest + "\"?)" : "";
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const Decoded decoded = DecodeUtf8(text);
    if (decoded.length == 0) return false;
    text.remove_prefix(decoded.length);
  }
  return true;
}

std::string JoinList(const std::vector<std::string>& items, std::string_view last_word) {
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += i + 1 == items.size() ? " " + std::string(last_word) + " " : ", ";
    out += items[i];
  }
  return out;
}

std::string WithThousands(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::size_t DisplayWidth(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

bool IsPlainName(std::string_view text) {
  const auto alnum = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= 64 && alnum(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return alnum(c) || c == '.' || c == '_' || c == '-'; });
}

}  // namespace upgrade_gate::base
