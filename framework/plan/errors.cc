#include "framework/plan/errors.h"

#include <fmt/format.h>

#include <algorithm>
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
  const auto position = [](const Entry& e) { return std::pair(e.at.line, e.at.column); };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Entry& a, const Entry& b) { return position(a) < position(b); });
  // An alias brings the same node, and so the same error, several times.
  std::vector<Entry> unique;
  for (Entry& entry : sorted) {
    const bool known = std::any_of(unique.rbegin(), unique.rend(), [&](const Entry& other) {
      return position(other) == position(entry) && other.message == entry.message;
    });
    if (!known) unique.push_back(std::move(entry));
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

}  // namespace upgrade_gate::plan
