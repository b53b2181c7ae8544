// How patterns are compiled, the same wherever they are. Private.
#pragma once

#include <re2/re2.h>

namespace upgrade_gate::server {

re2::RE2::Options PatternOptions();

}  // namespace upgrade_gate::server
