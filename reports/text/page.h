// A page for a terminal. Whatever is put on it is made visible first, so no text
// from a plan, a server or a file can act on the terminal or on a CI log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reports/text/summary_text.h"

namespace upgrade_gate::text {

inline constexpr std::size_t kPageWidth = 110;

enum class Style { kPlain, kBold, kGood, kBad, kWarning, kDim };

struct Span {
  Style style = Style::kPlain;
  std::string text;
};

// `text` filled up with blanks to `width` columns.
std::string PadRight(std::string_view text, std::size_t width);
std::string PadLeft(std::string_view text, std::size_t width);

class Page {
 public:
  explicit Page(Color color) : color_(color) {}

  void Blank();
  void Line(const std::vector<Span>& spans);
  void Line(std::string_view text) { Line({{Style::kPlain, std::string(text)}}); }
  void Heading(std::string_view text) { Line({{Style::kBold, std::string(text)}}); }
  // `head`, then `text` broken at blanks; further lines begin at column `hang`.
  // A word that is wider than the page is not broken: it is a path or a digest.
  // Lines in `text` stay lines.
  void Wrapped(const std::vector<Span>& head, std::string_view text, std::size_t hang);

  std::string Take();

 private:
  Color color_;
  std::string out_;
};

}  // namespace upgrade_gate::text
