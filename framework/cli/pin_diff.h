// What `pin` would change, as `patch` reads it.
#pragma once

#include <string>
#include <string_view>

namespace upgrade_gate::cli {

// A unified diff without context of two texts of equally many lines, by lines that
// differ; empty if none does. `file` is shown as the name of both.
std::string LineDiff(std::string_view file, std::string_view before, std::string_view after);

}  // namespace upgrade_gate::cli
