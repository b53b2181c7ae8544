// zstd for the large files of the evidence (*.zst).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/result.h"

namespace upgrade_gate::base {

// The same bytes always give the same frame.
std::string Compress(std::string_view bytes);
// An error if the result would be longer than `cap`: the input is not trusted.
Result<std::string> Decompress(std::string_view bytes, std::uint64_t cap);

}  // namespace upgrade_gate::base
