#include "reports/text/page.h"

#include <algorithm>
#include <utility>

#include "framework/base/text.h"

namespace upgrade_gate::text {
namespace {

// The most of one text that is put on a page; whole texts are in verdict.json.
constexpr std::size_t kLongestText = 4000;

const char* CodeOf(Style style) {
  switch (style) {
    case Style::kBold:
      return "\x1b[1m";
    case Style::kGood:
      return "\x1b[1;32m";
    case Style::kBad:
      return "\x1b[1;31m";
    case Style::kWarning:
      return "\x1b[1;33m";
    case Style::kDim:
      return "\x1b[2m";
    case Style::kPlain:
      break;
  }
  return "";
}

std::vector<std::string> Split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string PadRight(std::string_view text, std::size_t width) {
  const std::size_t used = base::DisplayWidth(text);
  return std::string(text) + std::string(width > used ? width - used : 0, ' ');
}

std::string PadLeft(std::string_view text, std::size_t width) {
  const std::size_t used = base::DisplayWidth(text);
  return std::string(width > used ? width - used : 0, ' ') + std::string(text);
}

void Page::Blank() {
  out_ += '\n';
}

void Page::Line(const std::vector<Span>& spans) {
  std::string line;
  for (const Span& span : spans) {
    const std::string text = base::Visible(span.text);
    if (color_ == Color::kAlways && span.style != Style::kPlain && !text.empty()) {
      line += CodeOf(span.style) + text + "\x1b[0m";
    } else {
      line += text;
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  out_ += base::NeutralizeCommands(line) + '\n';
}

void Page::Wrapped(const std::vector<Span>& head, std::string_view text, std::size_t hang) {
  std::vector<Span> spans = head;
  std::size_t column = 0;
  for (const Span& span : spans) column += base::DisplayWidth(base::Visible(span.text));
  const std::string whole = base::Visible(base::Shorten(text, kLongestText), true);
  for (const std::string& paragraph : Split(whole, '\n')) {
    std::string line;
    for (const std::string& word : Split(paragraph, ' ')) {
      const std::size_t width = base::DisplayWidth(word);
      if (!line.empty() && column + 1 + width > kPageWidth) {
        spans.push_back({Style::kPlain, std::exchange(line, {})});
        Line(spans);
        spans = {{Style::kPlain, std::string(hang, ' ')}};
        column = hang;
      }
      if (!line.empty()) line += ' ', ++column;
      line += word;
      column += width;
    }
    spans.push_back({Style::kPlain, line});
    Line(spans);
    spans = {{Style::kPlain, std::string(hang, ' ')}};
    column = hang;
  }
}

std::string Page::Take() {
  return std::exchange(out_, {});
}

}  // namespace upgrade_gate::text
