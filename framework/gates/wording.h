// Numbers and counts as messages show them: fixed forms, no locale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace upgrade_gate::gates {

// "115.0", "8.77", "0.120": three or four significant digits, never an exponent
// in the range that servers reach.
std::string Value(double value);
// The shortest form that reads back the same: a number as somebody wrote it.
std::string Number(double value);
// "0.989"; four decimals where three would hide the distance to 1.
std::string Ratio(double value);
// 0.0061 -> "0.61 %"
std::string Share(double fraction);
// A number of percent as the plan writes it: "0.5 %".
std::string PercentText(double percent);
// 1.226 -> "+22.6": percent of the baseline.
std::string SignedPercent(double ratio);
// 1.226 -> "+22.6 %": a change of the baseline.
std::string Change(double ratio);
// 50 -> "+50 %": a change as somebody wrote it.
std::string SignedPercentText(double percent);
// "1 round", "3 rounds"
std::string Count(std::size_t n, std::string_view noun);
std::string Count(int n, std::string_view noun);
// The first twelve digits, enough for people.
std::string ShortDigest(std::string_view digest);
// One line of hostile text, capped.
std::string Shown(std::string_view text);

}  // namespace upgrade_gate::gates
