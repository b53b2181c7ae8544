// What may be done on the stream that somebody, or something, reads.
#pragma once

#include <cstddef>
#include <cstdio>

#include "reports/text/summary_text.h"

namespace upgrade_gate::cli {

// Colour only for a person at a terminal who did not refuse it.
text::Color ColorFor(std::FILE* stream);

// A line may be drawn over itself: a terminal that knows how, and no CI system.
bool IsLive(std::FILE* stream);
std::size_t WidthOf(std::FILE* stream);  // 80 where it is not known

}  // namespace upgrade_gate::cli
