#include "framework/cli/pin_diff.h"

#include <fmt/format.h>

#include <cstddef>
#include <vector>

#include "framework/base/result.h"

namespace upgrade_gate::cli {
namespace {

// Each with its line end; the last has none if the text has none.
std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t length = end == text.npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

std::string Marked(char mark, std::string_view line) {
  const bool ended = line.ends_with('\n');
  return fmt::format("{}{}{}", mark, line, ended ? "" : "\n\\ No newline at end of file\n");
}

}  // namespace

std::string LineDiff(std::string_view file, std::string_view before, std::string_view after) {
  const std::vector<std::string_view> old_lines = Lines(before);
  const std::vector<std::string_view> new_lines = Lines(after);
  UG_CHECK(old_lines.size() == new_lines.size());
  std::string diff;
  for (std::size_t i = 0; i < old_lines.size();) {
    if (old_lines[i] == new_lines[i]) {
      ++i;
      continue;
    }
    std::size_t end = i;
    std::string removed;
    std::string added;
    for (; end < old_lines.size() && old_lines[end] != new_lines[end]; ++end) {
      removed += Marked('-', old_lines[end]);
      added += Marked('+', new_lines[end]);
    }
    const std::string range =
        end - i == 1 ? fmt::format("{}", i + 1) : fmt::format("{},{}", i + 1, end - i);
    diff += fmt::format("@@ -{} +{} @@\n{}{}", range, range, removed, added);
    i = end;
  }
  return diff.empty() ? diff : fmt::format("--- {}\n+++ {}\n{}", file, file, diff);
}

}  // namespace upgrade_gate::cli
