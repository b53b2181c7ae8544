#include "framework/evidence/sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "framework/base/text.h"
#include "framework/evidence/seal.h"

namespace upgrade_gate::evidence {
namespace {

constexpr std::size_t kHexDigits = 64;
constexpr std::string_view kEscaped = "\\\n\r";

std::string Escape(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += c;
    }
  }
  return out;
}

std::optional<std::string> Unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    if (text[i] == '\\') {
      out += '\\';
    } else if (text[i] == 'n') {
      out += '\n';
    } else if (text[i] == 'r') {
      out += '\r';
    } else {
      return std::nullopt;
    }
  }
  return out;
}

std::string Line(const std::string& name, const base::Sha256Hex& digest) {
  const bool escape = name.find_first_of(kEscaped) != std::string::npos;
  return fmt::format("{}{}  {}\n", escape ? "\\" : "", digest, escape ? Escape(name) : name);
}

struct Row {
  std::string name;
  base::Sha256Hex digest;
};

// `line` without its newline.
std::optional<Row> ParseLine(std::string_view line) {
  const std::string_view whole = line;
  const bool escaped = line.starts_with('\\');
  if (escaped) line.remove_prefix(1);
  if (line.size() < kHexDigits + 2 || line.substr(kHexDigits, 2) != "  ") return std::nullopt;
  Row row;
  row.digest = line.substr(0, kHexDigits);
  if (!base::IsSha256Hex(row.digest)) return std::nullopt;
  const std::string_view name = line.substr(kHexDigits + 2);
  auto plain = escaped ? Unescape(name) : std::optional(std::string(name));
  if (!plain) return std::nullopt;
  row.name = *std::move(plain);
  // The one spelling: a name that needs no escape has none, and the other way round.
  if (Line(row.name, row.digest) != std::string(whole) + "\n") return std::nullopt;
  return row;
}

}  // namespace

std::string WriteSums(const Sums& sums) {
  std::string out;
  for (const auto& [name, digest] : sums) out += Line(name, digest);
  return out;
}

std::string NameProblem(std::string_view name) {
  if (name.empty()) return "is an empty name";
  if (name.starts_with('/')) return "is an absolute path";
  if (name.find('\0') != std::string_view::npos) return "has a NUL byte";
  if (name == kSumsName) return "cannot seal itself";
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t end = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, end - start);
    if (part.empty()) return "has an empty component";
    if (part == "." || part == "..") return fmt::format("has a component \"{}\"", part);
    start = end + 1;
  }
  return "";
}

std::string CaseFold::Add(std::string_view name) {
  std::string folded(name);
  for (char& c : folded) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (std::size_t end = 0; end < name.size(); ++end) {
    end = std::min(name.find('/', end), name.size());
    const auto [it, added] =
        spelling_.emplace(folded.substr(0, end), std::string(name.substr(0, end)));
    if (!added && it->second != name.substr(0, end)) return it->second;
  }
  return "";
}

ParsedSums ParseSums(std::string_view text) {
  ParsedSums parsed;
  CaseFold fold;
  std::optional<std::string> last;
  std::size_t number = 0;
  const auto problem = [&](std::string_view what) {
    parsed.problems.push_back(fmt::format("line {}: {}", number, what));
  };
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (end == std::string_view::npos) {
      problem("does not end with a newline; the file is cut short");
      break;
    }
    auto row = ParseLine(line);
    if (!row) {
      problem(fmt::format("is not \"<sha256>  <name>\": \"{}\"",
                          base::Shorten(base::Visible(line), 120)));
      continue;
    }
    const std::string shown = base::Shorten(base::Visible(row->name), 200);
    if (const std::string why = NameProblem(row->name); !why.empty()) {
      problem(fmt::format("\"{}\" {}", shown, why));
      continue;
    }
    if (parsed.files.contains(row->name)) {
      problem(fmt::format("\"{}\" is there twice", shown));
      continue;
    }
    if (const std::string other = fold.Add(row->name); !other.empty()) {
      problem(fmt::format("\"{}\" differs from \"{}\" in nothing but case", shown,
                          base::Visible(other)));
      continue;
    }
    if (last && row->name < *last) problem(fmt::format("\"{}\" is not in order", shown));
    last = row->name;
    parsed.files.emplace(std::move(row->name), std::move(row->digest));
  }
  return parsed;
}

}  // namespace upgrade_gate::evidence
