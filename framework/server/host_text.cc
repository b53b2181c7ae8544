#include "framework/server/host_text.h"

#include <algorithm>

#include "framework/base/file.h"
#include "framework/base/text.h"

namespace upgrade_gate::server {
namespace {

constexpr std::uint64_t kNumberCap = 4096;

}  // namespace

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t start = text.find_first_not_of(kSpace);
  if (start == text.npos) return {};
  return text.substr(start, text.find_last_not_of(kSpace) - start + 1);
}

std::vector<std::string> Split(std::string_view text, char by) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(by);
    parts.emplace_back(Trimmed(text.substr(0, end)));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines = Split(text, '\n');
  std::erase(lines, "");
  return lines;
}

std::string FirstValue(std::string_view text, std::string_view key, char separator) {
  for (const std::string& line : Lines(text)) {
    const std::size_t at = line.find(separator);
    if (at != line.npos && Trimmed(std::string_view(line).substr(0, at)) == key) {
      return std::string(Trimmed(std::string_view(line).substr(at + 1)));
    }
  }
  return {};
}

base::Result<std::uint64_t> ReadNumber(const std::filesystem::path& path) {
  UG_ASSIGN(const std::string text, base::ReadFile(path, kNumberCap));
  const auto number = Number<std::uint64_t>(Trimmed(text));
  if (number) return *number;
  return base::InfrastructureError(path.string() + ": \"" +
                                   base::Shorten(base::Visible(Trimmed(text)), 80) +
                                   "\" is not a number");
}

base::Result<std::vector<std::uint64_t>> NumberedEntries(const std::filesystem::path& folder) {
  std::vector<std::uint64_t> numbers;
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    if (const auto number = Number<std::uint64_t>(it->path().filename().native())) {
      numbers.push_back(*number);
    }
  }
  if (error) {
    return base::InfrastructureError(folder.string() + ": cannot list: " + error.message());
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::int64_t CeilMib(std::uint64_t bytes) {
  return static_cast<std::int64_t>(bytes / (1U << 20) + (bytes % (1U << 20) != 0 ? 1 : 0));
}

}  // namespace upgrade_gate::server
