#include "framework/base/units.h"

#include <fmt/format.h>

namespace upgrade_gate::base {

std::string ToString(Percent percent) {
  return fmt::format("{}%", percent.value);
}
std::string ToString(TokensPerSecond rate) {
  return fmt::format("{}tok/s", rate.value);
}

}  // namespace upgrade_gate::base
