#include "framework/plan/errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "framework/base/text.h"
#include "framework/plan/plan_file.h"

namespace upgrade_gate::plan {

void Errors::Add(Location at, std::string message) {
  list_.push_back({at, std::move(message)});
}

base::Error Errors::ToError() const {
  std::vector<Entry> sorted = list_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
  });
  // An alias brings the same node, and so the same error, several times.
  std::vector<Entry> unique;
  std::set<std::tuple<int, int, std::string>> seen;
  for (Entry& entry : sorted) {
    if (seen.emplace(entry.at.line, entry.at.column, entry.message).second) {
      unique.push_back(std::move(entry));
    }
  }

  const std::string file = base::Visible(file_);
  std::string text;
  const std::size_t listed = std::min<std::size_t>(unique.size(), kMaxPlanErrors);
  for (std::size_t i = 0; i < listed; ++i) {
    if (i > 0) text += '\n';
    text += file;
    if (unique[i].at.line > 0) {
      text += fmt::format(":{}:{}", unique[i].at.line, unique[i].at.column);
    }
    text += ": " + unique[i].message;
  }
  if (unique.size() > listed) {
    const std::size_t rest = unique.size() - listed;
    text += fmt::format("\n{}: and {} more error{}", file, rest, rest == 1 ? "" : "s");
  }
  return base::Error{base::ErrorKind::kUsage, std::move(text)};
}

std::string Quoted(std::string_view text) {
  constexpr std::size_t kShown = 80;
  return "\"" + base::Visible(base::Shorten(text, kShown)) + "\"";
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  // Edit distances of long or many names would take a hostile plan minutes.
  constexpr std::size_t kLongest = 128;
  constexpr std::size_t kMost = 256;
  if (word.size() > kLongest || candidates.size() > kMost) return "";
  std::vector<std::string> near;
  for (const std::string& candidate : candidates) {
    if (candidate.size() <= kLongest) near.push_back(candidate);
  }
  return base::DidYouMean(word, near);
}

}  // namespace upgrade_gate::plan
