// Addresses made fit to show.
#pragma once

#include <string>
#include <string_view>

namespace upgrade_gate::base {

// `address` without what may be a user's name, a password or a token: "…" for everything
// from the "//", or without one from the beginning, to the last "@".
std::string WithoutLogin(std::string_view address);

}  // namespace upgrade_gate::base
