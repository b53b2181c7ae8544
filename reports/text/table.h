// An aligned table, two blanks between columns.
#pragma once

#include <string>
#include <vector>

#include "reports/text/page.h"

namespace upgrade_gate::text {

class Table {
 public:
  // The first column is aligned left, the others right.
  explicit Table(std::vector<std::string> titles) : titles_(std::move(titles)) {}
  // As many cells as titles.
  void Row(std::vector<std::string> cells);
  void Print(Page& page) const;

 private:
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace upgrade_gate::text
