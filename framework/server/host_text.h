// Reading what kernels and tools print: small pieces shared by the readers of a host.
#pragma once

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "framework/base/result.h"

namespace upgrade_gate::server {

// Without blanks and line ends around it.
std::string_view Trimmed(std::string_view text);
// The parts between `by`, trimmed.
std::vector<std::string> Split(std::string_view text, char by);
// Without empty ones, trimmed.
std::vector<std::string> Lines(std::string_view text);
// The value of the line "key<separator>value"; empty: there is none.
std::string FirstValue(std::string_view text, std::string_view key, char separator = ':');

// The whole of `text`, without sign or blank around it.
template <typename T>
std::optional<T> Number(std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A file of one number, as sysfs has them.
base::Result<std::uint64_t> ReadNumber(const std::filesystem::path& path);

// The names in a folder that are numbers, ascending: processes, nodes of a topology.
base::Result<std::vector<std::uint64_t>> NumberedEntries(const std::filesystem::path& folder);

// Rounded up: what is there is never shown as nothing.
std::int64_t CeilMib(std::uint64_t bytes);

}  // namespace upgrade_gate::server
