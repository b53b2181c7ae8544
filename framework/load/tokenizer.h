// The seam to a server's own tokenizer, which alone knows how long a text is.
#pragma once

#include <string>

#include "framework/base/result.h"
#include "framework/load/completion_request.h"

namespace upgrade_gate::load {

enum class SpecialTokens { kAdd, kLeaveOut };  // such as one for the text's beginning

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual base::Result<TokenIds> Encode(const std::string& text, SpecialTokens special) = 0;
  virtual base::Result<std::string> Decode(const TokenIds& ids) = 0;
};

}  // namespace upgrade_gate::load
