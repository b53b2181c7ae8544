#include "reports/text/table.h"

#include <algorithm>

#include "framework/base/result.h"
#include "framework/base/text.h"

namespace upgrade_gate::text {
namespace {

// A longer first cell has a line of its own, so that one long name does not
// push all numbers off the page.
constexpr std::size_t kWidestFirst = 26;

}  // namespace

void Table::Row(std::vector<std::string> cells) {
  UG_CHECK(cells.size() == titles_.size());
  for (std::string& cell : cells) cell = base::Visible(cell);
  rows_.push_back(std::move(cells));
}

void Table::Print(Page& page) const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < titles_.size(); ++column) {
    std::size_t width = base::DisplayWidth(titles_[column]);
    for (const auto& row : rows_) {
      const std::size_t used = base::DisplayWidth(row[column]);
      if (column > 0 || used <= kWidestFirst) width = std::max(width, used);
    }
    widths.push_back(width);
  }
  const auto line = [&](const std::vector<std::string>& cells, bool with_first) {
    std::string out = "  " + PadRight(with_first ? cells[0] : "", widths[0]);
    for (std::size_t column = 1; column < cells.size(); ++column) {
      out += "  " + PadLeft(cells[column], widths[column]);
    }
    return out;
  };
  page.Line({{Style::kDim, line(titles_, true)}});
  for (const auto& row : rows_) {
    const bool fits = base::DisplayWidth(row[0]) <= widths[0];
    if (!fits) page.Line("  " + row[0]);
    page.Line(line(row, fits));
  }
}

}  // namespace upgrade_gate::text
