#include "framework/evidence/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "framework/base/text.h"
#include "framework/evidence/limits.h"

namespace upgrade_gate::evidence {
namespace {

constexpr std::string_view kWriting = ".writing-";
constexpr std::string_view kSuperseded = ".superseded";
constexpr std::string_view kTemporary = ".tmp";

bool IsDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<int> Number(std::string_view text) {
  int value = 0;
  if (!IsDigits(text)) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < 1 || value > kMaxNumber) return std::nullopt;
  return value;
}

// Cuts "<separator><digits>" off the end.
bool CutNumber(std::string_view& text, std::string_view separator) {
  const auto at = text.rfind(separator);
  if (at == std::string_view::npos || !IsDigits(text.substr(at + separator.size()))) return false;
  text = text.substr(0, at);
  return true;
}

bool CutSuperseded(std::string_view& text) {
  std::string_view head = text;
  if (!head.ends_with(kSuperseded) && !CutNumber(head, "-")) return false;
  if (!head.ends_with(kSuperseded)) return false;
  // A second folder of the same round is number 2; "-1", "-02" are nobody's names.
  const std::string_view number = text.substr(head.size());
  if (!number.empty()) {
    const auto value = Number(number.substr(1));
    if (!value || *value < 2 || fmt::format("-{}", *value) != number) return false;
  }
  head.remove_suffix(kSuperseded.size());
  text = head;
  return true;
}

}  // namespace

std::string Layout::BootName(int number, const std::string& arm) {
  return fmt::format("{:02}-{}", number, arm);
}

std::string Layout::StreamName(int index, Phase phase) {
  return fmt::format("{}{:05}.raw.zst",
                     phase == Phase::kFormal ? "" : fmt::format("{}-", Name(phase)), index);
}

std::optional<BootFolderName> ParseBootName(std::string_view name) {
  const auto dash = name.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto number = Number(name.substr(0, dash));
  BootFolderName parsed{number.value_or(0), std::string(name.substr(dash + 1))};
  if (!number || !base::IsPlainName(parsed.arm)) return std::nullopt;
  if (Layout::BootName(parsed.number, parsed.arm) != name) return std::nullopt;
  return parsed;
}

std::optional<RoundName> ParseRoundName(const std::string& name) {
  std::string_view rest = name;
  const bool superseded = CutSuperseded(rest);
  const std::string_view with_round = rest;
  if (!CutNumber(rest, "-r")) return std::nullopt;
  const auto boot = ParseBootName(rest);
  const auto round = Number(with_round.substr(rest.size() + 2));
  if (!boot || !round) return std::nullopt;
  if (fmt::format("{}-r{}", rest, *round) != with_round) return std::nullopt;
  return RoundName{boot->number, boot->arm, *round, superseded};
}

std::filesystem::path UnfinishedName(const std::filesystem::path& folder) {
  return folder.parent_path() / (std::string(kWriting) + folder.filename().string());
}

bool IsUnfinishedFolder(std::string_view name) {
  return name.starts_with(kWriting);
}

bool IsUnfinishedFile(std::string_view name) {
  return CutNumber(name, kTemporary) && !name.empty();
}

}  // namespace upgrade_gate::evidence
