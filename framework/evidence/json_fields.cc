#include "framework/evidence/json_fields.h"

#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/evidence/limits.h"
#include "framework/evidence/records.h"

namespace upgrade_gate::evidence {
namespace {

using base::Json;

tl::unexpected<base::Error> Wrong(std::string_view key, std::string_view what) {
  return base::EvidenceError(fmt::format("\"{}\" {}", key, what));
}

std::string Quoted(const std::string& text) {
  return fmt::format("\"{}\"", base::Shorten(base::Visible(text), 80));
}

base::Result<bool> IsNull(const Json& object, std::string_view key) {
  UG_ASSIGN(const Json* member, base::Member(object, key));
  return member->is_null();
}

}  // namespace

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json NsOrNull(const std::optional<base::Nanoseconds>& time) {
  return time ? Json(time->count()) : Json(nullptr);
}

base::Status CheckSchema(const Json& object) {
  UG_ASSIGN(const std::int64_t schema, base::IntMember(object, "schema"));
  if (schema != kSchema) {
    return Wrong("schema", fmt::format("is {}; this version reads {}", schema, kSchema));
  }
  return {};
}

base::Result<std::int64_t> IntIn(const Json& object, std::string_view key, std::int64_t low,
                                 std::int64_t high) {
  UG_ASSIGN(const std::int64_t value, base::IntMember(object, key));
  if (value < low || value > high) {
    return Wrong(key, fmt::format("is {}, which is not between {} and {}", value, low, high));
  }
  return value;
}

base::Result<int> SmallInt(const Json& object, std::string_view key, std::int64_t low,
                           std::int64_t high) {
  UG_ASSIGN(const std::int64_t value, IntIn(object, key, low, high));
  return static_cast<int>(value);
}

base::Result<std::optional<int>> OptionalInt(const Json& object, std::string_view key,
                                             std::int64_t low, std::int64_t high) {
  UG_ASSIGN(const bool null, IsNull(object, key));
  if (null) return std::nullopt;
  UG_ASSIGN(const int value, SmallInt(object, key, low, high));
  return value;
}

base::Result<base::Nanoseconds> Ns(const Json& object, std::string_view key) {
  UG_ASSIGN(const std::int64_t value, IntIn(object, key, 0, kMaxNanoseconds));
  return base::Nanoseconds(value);
}

base::Result<std::optional<base::Nanoseconds>> OptionalNs(const Json& object,
                                                          std::string_view key) {
  UG_ASSIGN(const bool null, IsNull(object, key));
  if (null) return std::nullopt;
  UG_ASSIGN(const base::Nanoseconds value, Ns(object, key));
  return value;
}

base::Result<double> Amount(const Json& object, std::string_view key) {
  UG_ASSIGN(const double value, base::NumberMember(object, key));
  if (value < 0) return Wrong(key, fmt::format("is {}, which is below 0", value));
  return value;
}

base::Result<std::string> OptionalText(const Json& object, std::string_view key) {
  UG_ASSIGN(const bool null, IsNull(object, key));
  if (null) return std::string();
  return base::StringMember(object, key);
}

base::Result<std::vector<std::string>> TextList(const Json& object, std::string_view key) {
  UG_ASSIGN(const Json* list, Array(object, key));
  std::vector<std::string> texts;
  for (const Json& item : *list) {
    if (!item.is_string()) return Wrong(key, "holds something that is not a string");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

base::Result<base::Sha256Hex> Digest(const Json& object, std::string_view key) {
  UG_ASSIGN(base::Sha256Hex digest, base::StringMember(object, key));
  if (!base::IsSha256Hex(digest)) {
    return Wrong(key, fmt::format("is {}, not 64 hexadecimal digits", Quoted(digest)));
  }
  return digest;
}

base::Result<base::Sha256Hex> OptionalDigest(const Json& object, std::string_view key) {
  UG_ASSIGN(const bool null, IsNull(object, key));
  if (null) return base::Sha256Hex();
  return Digest(object, key);
}

base::Result<std::string> OptionalUtc(const Json& object, std::string_view key) {
  UG_ASSIGN(std::string text, OptionalText(object, key));
  base::WallTime time;
  if (!text.empty() && !base::ParseUtc(text, time)) {
    return Wrong(
        key, fmt::format("is {}, not a time such as \"2026-10-18T09:30:00.125Z\"", Quoted(text)));
  }
  return text;
}

base::Result<std::string> PlainName(const Json& object, std::string_view key) {
  UG_ASSIGN(std::string text, base::StringMember(object, key));
  if (!base::IsPlainName(text)) {
    return Wrong(key, fmt::format("is {}, which is not a plain name", Quoted(text)));
  }
  return text;
}

base::Result<const Json*> Object(const Json& object, std::string_view key) {
  UG_ASSIGN(const Json* member, base::Member(object, key));
  if (!member->is_object()) return Wrong(key, "is not an object");
  return member;
}

base::Result<const Json*> Array(const Json& object, std::string_view key) {
  UG_ASSIGN(const Json* member, base::Member(object, key));
  if (!member->is_array()) return Wrong(key, "is not a list");
  return member;
}

}  // namespace upgrade_gate::evidence
