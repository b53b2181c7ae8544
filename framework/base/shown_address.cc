#include "framework/base/shown_address.h"

namespace upgrade_gate::base {

std::string WithoutLogin(std::string_view address) {
  // The last of all of it: a password that was not encoded may hold "/" and "@".
  const std::size_t at = address.rfind('@');
  if (at == address.npos) return std::string(address);
  const std::size_t colon = address.substr(0, at).find(':');
  const bool has_scheme = colon != address.npos && address.substr(colon).starts_with("://");
  return std::string(address.substr(0, has_scheme ? colon + 3 : 0)) + "…" +
         std::string(address.substr(at));
}

}  // namespace upgrade_gate::base
