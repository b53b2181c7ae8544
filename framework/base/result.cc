#include "framework/base/result.h"

#include <cstdio>
#include <cstdlib>

namespace upgrade_gate::base {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}

}  // namespace upgrade_gate::base
