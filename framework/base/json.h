// JSON as this project reads and writes it. Private: included by sources only,
// never by a public header and not installed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "framework/base/result.h"

namespace upgrade_gate::base {

// Keeps the order in which keys were written: files read as they were meant.
using Json = nlohmann::ordered_json;

// Strict: refuses doubled keys, nesting over 64 levels, trailing bytes, NaN.
// The error says where ("byte 17") and why.
Result<Json> ParseJson(std::string_view text);

// Indented by two, ends with a newline, invalid UTF-8 replaced.
std::string WriteJson(const Json& value);
// On one line, no newline.
std::string WriteJsonLine(const Json& value);

// The members of an object, by type; an error names the key.
Result<const Json*> Member(const Json& object, std::string_view key);
Result<std::string> StringMember(const Json& object, std::string_view key);
Result<std::int64_t> IntMember(const Json& object, std::string_view key);
Result<double> NumberMember(const Json& object, std::string_view key);
Result<bool> BoolMember(const Json& object, std::string_view key);

// null for absent, never NaN.
template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace upgrade_gate::base
