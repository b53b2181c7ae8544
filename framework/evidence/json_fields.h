// Members of a record, read with their range and grammar. Private.
//
// Absent is null: a member that is not there at all is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/digest.h"
#include "framework/base/json.h"
#include "framework/base/result.h"

namespace upgrade_gate::evidence {

// null for an empty text or digest.
base::Json TextOrNull(const std::string& text);
base::Json NsOrNull(const std::optional<base::Nanoseconds>& time);

base::Status CheckSchema(const base::Json& object);
base::Result<std::int64_t> IntIn(const base::Json& object, std::string_view key, std::int64_t low,
                                 std::int64_t high);
base::Result<int> SmallInt(const base::Json& object, std::string_view key, std::int64_t low,
                           std::int64_t high);
base::Result<std::optional<int>> OptionalInt(const base::Json& object, std::string_view key,
                                             std::int64_t low, std::int64_t high);
base::Result<base::Nanoseconds> Ns(const base::Json& object, std::string_view key);
base::Result<std::optional<base::Nanoseconds>> OptionalNs(const base::Json& object,
                                                          std::string_view key);
// Finite and not below 0.
base::Result<double> Amount(const base::Json& object, std::string_view key);
// An empty text for null.
base::Result<std::string> OptionalText(const base::Json& object, std::string_view key);
base::Result<std::vector<std::string>> TextList(const base::Json& object, std::string_view key);
base::Result<base::Sha256Hex> Digest(const base::Json& object, std::string_view key);
base::Result<base::Sha256Hex> OptionalDigest(const base::Json& object, std::string_view key);
// As base::FormatUtc writes it, or empty for null.
base::Result<std::string> OptionalUtc(const base::Json& object, std::string_view key);
// A name that is safe as a file's name.
base::Result<std::string> PlainName(const base::Json& object, std::string_view key);
base::Result<const base::Json*> Object(const base::Json& object, std::string_view key);
base::Result<const base::Json*> Array(const base::Json& object, std::string_view key);

}  // namespace upgrade_gate::evidence
