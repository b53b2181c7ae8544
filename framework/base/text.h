// Text from outside made fit to show, and small helpers for messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace upgrade_gate::base {

// Valid UTF-8 in which nothing acts on a terminal, an XML parser or a CI log:
// C0 and C1 controls, bidi controls, U+FFFE/U+FFFF and broken bytes are shown as
// "\x1b", "\u202e" or "\xff". Tabs and newlines stay if `keep_lines`.
std::string Visible(std::string_view text, bool keep_lines = false);

// Lines that a CI system would obey are shown and not obeyed: a backslash breaks
// a leading "::" (GitHub), any "##vso[", "##[" or "##teamcity[" (Azure, TeamCity), and
// any "[[ATTACHMENT|", "<CTest" and "<Dart", by which Jenkins, GitLab and CDash publish a file.
std::string NeutralizeCommands(std::string_view text);

// `word` as a POSIX shell reads it back: quoted where it must be.
std::string ShellWord(std::string_view word);

// At most `limit` bytes, cut at a character's border, with "…" when cut.
std::string Shorten(std::string_view text, std::size_t limit);

// The candidate nearest to `word` by edit distance, if one is near enough to be
// what was meant.
std::optional<std::string> Nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

// ` (did you mean "p90"?)` or an empty string.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

bool IsValidUtf8(std::string_view text);

// `a, b and c`
std::string JoinList(const std::vector<std::string>& items, std::string_view last_word = "and");

// "1,968"
std::string WithThousands(std::int64_t value);

// Columns on a terminal: characters, not bytes (one column a code point).
std::size_t DisplayWidth(std::string_view text);

// A name that is safe as a file name, a CTest name and a gate id:
// [A-Za-z0-9][A-Za-z0-9._-]*, at most 64 bytes.
bool IsPlainName(std::string_view text);

}  // namespace upgrade_gate::base
