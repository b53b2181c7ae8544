// SHA256SUMS as text: sha256sum's format, one spelling of it. Private.
//
// A line is "<64 hexadecimal digits>  <name>\n", by name in byte order. A name
// with a backslash, a newline or a carriage return has them written as \\, \n
// and \r, and a backslash before the line, as coreutils writes it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/digest.h"

namespace upgrade_gate::evidence {

using Sums = std::map<std::string, base::Sha256Hex>;

std::string WriteSums(const Sums& sums);

struct ParsedSums {
  Sums files;                         // every name that is properly listed
  std::vector<std::string> problems;  // "line 3: …"
};
// Strict: everything that WriteSums would not have written is a problem.
ParsedSums ParseSums(std::string_view text);

// Why `name` cannot be sealed ("is an absolute path", …); empty: it can.
std::string NameProblem(std::string_view name);

// Finds paths, and folders on the way to them, that a file system without case
// cannot keep apart. Folds ASCII only.
class CaseFold {
 public:
  // The earlier spelling that `name` collides with; empty: none.
  std::string Add(std::string_view name);

 private:
  std::map<std::string, std::string> spelling_;
};

}  // namespace upgrade_gate::evidence
