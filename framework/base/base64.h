// Base64 as in RFC 4648, section 4: the alphabet with "+" and "/".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace upgrade_gate::base {

// With "=" at its end, without line breaks.
std::string EncodeBase64(std::string_view bytes);
// Absent for text that is not base64. The "=" may be left out.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace upgrade_gate::base
