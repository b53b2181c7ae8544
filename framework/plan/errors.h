// The errors of one plan file, collected so that a user sees all of them at once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/result.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::plan {

class Errors {
 public:
  // `file` is what the messages call the document.
  explicit Errors(std::string_view file) : file_(file) {}

  // `message` must already be fit to show: text of the file goes through Quoted().
  void Add(Location at, std::string message);
  bool empty() const { return list_.empty(); }
  std::size_t size() const { return list_.size(); }
  // One line an error, by position, doubles left out, at most kMaxPlanErrors
  // and then a line that counts the rest. Not for an empty list.
  base::Error ToError() const;

 private:
  struct Entry {
    Location at;
    std::string message;
  };
  std::string file_;
  std::vector<Entry> list_;
};

// The text of a file in quotes, made visible and cut to a readable length.
std::string Quoted(std::string_view text);
// base::DidYouMean, made safe for names that the file chooses.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace upgrade_gate::plan
