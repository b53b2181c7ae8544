#include "framework/plan/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "framework/base/digest.h"
#include "framework/base/text.h"

namespace upgrade_gate::plan {
namespace {

// The value as a message shows it.
std::string Describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "empty";
    case Node::Kind::kScalar:
      return Quoted(node.text);
    case Node::Kind::kSequence:
      return "a list";
    case Node::Kind::kMapping:
      break;
  }
  return "a mapping";
}

void MustBe(const Value& value, std::string_view wanted) {
  value.Fail(fmt::format("{} must be {}, not {}", Quoted(value.key), wanted, Describe(value.node)));
}

// The text of an unquoted scalar. `wanted` is "a percentage like 3%".
std::optional<std::string_view> Plain(const Value& value, std::string_view wanted,
                                      std::string_view noun) {
  if (value.node.kind != Node::Kind::kScalar) {
    MustBe(value, wanted);
    return std::nullopt;
  }
  if (value.node.quoted) {
    value.Fail(fmt::format("{} is text, not a {}: leave out the quotes", Quoted(value.key), noun));
    return std::nullopt;
  }
  return value.node.text;
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// Digits with an optional sign, and an optional fraction: no exponent, no "inf",
// no ".5", and no leading zero, which YAML 1.1 takes for octal.
bool IsDecimal(std::string_view text, bool fraction) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  const std::size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  if (whole.empty() || !std::all_of(whole.begin(), whole.end(), IsDigit)) return false;
  if (whole.size() > 1 && whole[0] == '0') return false;
  if (point == text.npos) return true;
  const std::string_view rest = text.substr(point + 1);
  return fraction && !rest.empty() && std::all_of(rest.begin(), rest.end(), IsDigit);
}

// Of a text that IsDecimal accepts; absent if it is out of double's range.
std::optional<double> ToDouble(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    return std::nullopt;
  }
  return number;
}

bool InRange(double number, Real range) {
  const bool above =
      range.at_least == Bound::kIncluded ? number >= range.least : number > range.least;
  const bool below = range.at_most == Bound::kIncluded ? number <= range.most : number < range.most;
  return above && below;
}

std::string InWords(Real range, std::string_view unit) {
  return fmt::format("{} {}{} and {} {}{}",
                     range.at_least == Bound::kIncluded ? "at least" : "above", range.least, unit,
                     range.at_most == Bound::kIncluded ? "at most" : "below", range.most, unit);
}

struct Quantity {
  std::string_view number;
  std::string_view unit;
};

Quantity Split(std::string_view text) {
  const auto is_number = [](char c) { return IsDigit(c) || c == '.' || c == '-' || c == '+'; };
  const auto end = std::find_if_not(text.begin(), text.end(), is_number);
  const auto length = static_cast<std::size_t>(end - text.begin());
  return {text.substr(0, length), text.substr(length)};
}

struct WithUnit {
  std::string_view wanted;  // "a percentage like 3%"
  std::string_view noun;    // "percentage"
  std::string_view unit;    // "%"
};

std::optional<double> ReadWithUnit(const Value& value, const WithUnit& form, Real range) {
  const auto text = Plain(value, form.wanted, form.noun);
  if (!text) return std::nullopt;
  const Quantity quantity = Split(*text);
  if (!IsDecimal(quantity.number, true)) {
    MustBe(value, form.wanted);
    return std::nullopt;
  }
  if (quantity.unit.empty()) {
    value.Fail(fmt::format("{} has no unit: write {}{}", Quoted(value.key),
                           base::Shorten(quantity.number, 20), form.unit));
    return std::nullopt;
  }
  if (quantity.unit != form.unit) {
    value.Fail(fmt::format("{} has the unit {}: write {}{}", Quoted(value.key),
                           Quoted(quantity.unit), base::Shorten(quantity.number, 20), form.unit));
    return std::nullopt;
  }
  const auto number = ToDouble(quantity.number);
  if (!number || !InRange(*number, range)) {
    MustBe(value, InWords(range, form.unit));
    return std::nullopt;
  }
  return number;
}

struct TimeUnit {
  std::string_view name;
  double microseconds;
};
constexpr TimeUnit kTimeUnits[] = {
    {"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"min", 60e6}, {"h", 3600e6}};

std::string InWords(std::chrono::microseconds time) {
  const auto us = static_cast<double>(time.count());
  TimeUnit best = kTimeUnits[0];
  for (const TimeUnit& unit : kTimeUnits) {
    if (us >= unit.microseconds) best = unit;
  }
  return fmt::format("{}{}", us / best.microseconds, best.name);
}

std::optional<std::chrono::microseconds> ReadTime(const Value& value, Span range) {
  constexpr std::string_view kWanted = "a duration like 250ms, 30s, 45min or 2h";
  const auto text = Plain(value, kWanted, "duration");
  if (!text) return std::nullopt;
  const Quantity quantity = Split(*text);
  if (!IsDecimal(quantity.number, true)) {
    MustBe(value, kWanted);
    return std::nullopt;
  }
  const std::string shown(base::Shorten(quantity.number, 20));
  if (quantity.unit.empty()) {
    value.Fail(fmt::format("{} has no unit: write {}s, or ms, min or h", Quoted(value.key), shown));
    return std::nullopt;
  }
  const auto* unit = std::find_if(std::begin(kTimeUnits), std::end(kTimeUnits),
                                  [&](const TimeUnit& u) { return u.name == quantity.unit; });
  if (unit == std::end(kTimeUnits)) {
    value.Fail(fmt::format("{} has the unit {}: write {}s, or ms, min or h", Quoted(value.key),
                           Quoted(quantity.unit), shown));
    return std::nullopt;
  }
  const auto number = ToDouble(quantity.number);
  const double us = number ? *number * unit->microseconds : INFINITY;
  if (us < static_cast<double>(range.least.count()) ||
      us > static_cast<double>(range.most.count())) {
    MustBe(value, fmt::format("from {} to {}", InWords(range.least), InWords(range.most)));
    return std::nullopt;
  }
  return std::chrono::microseconds(std::llround(us));
}

struct SizeUnit {
  std::string_view name;
  int power;  // of two
};
constexpr SizeUnit kSizeUnits[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};

std::string SizeInWords(std::uint64_t bytes) {
  SizeUnit best = kSizeUnits[0];
  for (const SizeUnit& unit : kSizeUnits) {
    if (bytes >= std::uint64_t{1} << unit.power) best = unit;
  }
  return fmt::format("{}{}", std::ldexp(static_cast<double>(bytes), -best.power), best.name);
}

}  // namespace

bool Read(const Value& value, std::string* out, Text text) {
  if (value.node.kind != Node::Kind::kScalar) {
    MustBe(value, "text");
    return false;
  }
  if (text == Text::kNotEmpty && value.node.text.empty()) {
    value.Fail(fmt::format("{} is empty", Quoted(value.key)));
    return false;
  }
  *out = value.node.text;
  return true;
}

bool Read(const Value& value, std::string* out, PlainName) {
  std::string text;
  if (!Read(value, &text)) return false;
  if (!base::IsPlainName(text)) {
    value.Fail(
        fmt::format("{} {} is not a plain name: begin with a letter or digit, then use only "
                    "letters, digits, \".\", \"_\" and \"-\", at most 64",
                    Quoted(value.key), Quoted(text)));
    return false;
  }
  *out = std::move(text);
  return true;
}

bool Read(const Value& value, std::string* out, Digest) {
  std::string text;
  if (!Read(value, &text)) return false;
  constexpr std::string_view kPrefix = "sha256:";
  if (text.compare(0, kPrefix.size(), kPrefix) == 0) text.erase(0, kPrefix.size());
  if (base::IsSha256Hex(text)) {
    *out = std::move(text);
    return true;
  }
  const auto lower = [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; };
  std::string lowered = text;
  std::transform(lowered.begin(), lowered.end(), lowered.begin(), lower);
  if (base::IsSha256Hex(lowered)) {
    value.Fail(
        fmt::format("{} has upper-case digits: write it in lower case, because digests are "
                    "compared as text",
                    Quoted(value.key)));
  } else {
    value.Fail(fmt::format("{} must be a SHA-256 of 64 hexadecimal digits, not {}",
                           Quoted(value.key), Quoted(text)));
  }
  return false;
}

bool Read(const Value& value, std::int64_t* out, Whole range) {
  constexpr std::string_view kWanted = "a whole number";
  const auto text = Plain(value, kWanted, "number");
  if (!text) return false;
  if (!IsDecimal(*text, false)) {
    MustBe(value, kWanted);
    return false;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || number < range.least || number > range.most) {
    MustBe(value, fmt::format("from {} to {}", base::WithThousands(range.least),
                              base::WithThousands(range.most)));
    return false;
  }
  *out = number;
  return true;
}

bool Read(const Value& value, int* out, Whole range) {
  std::int64_t number = 0;
  if (!Read(value, &number, range)) return false;
  *out = static_cast<int>(number);
  return true;
}

bool Read(const Value& value, std::uint64_t* out) {
  std::int64_t number = 0;
  if (!Read(value, &number, Whole{0, INT64_MAX})) return false;
  *out = static_cast<std::uint64_t>(number);
  return true;
}

bool Read(const Value& value, std::uint64_t* out, Size range) {
  constexpr std::string_view kWanted = "a size like 512MiB or 16GiB";
  const auto text = Plain(value, kWanted, "size");
  if (!text) return false;
  const Quantity quantity = Split(*text);
  if (!IsDecimal(quantity.number, true)) {
    MustBe(value, kWanted);
    return false;
  }
  const auto* unit = std::find_if(std::begin(kSizeUnits), std::end(kSizeUnits),
                                  [&](const SizeUnit& u) { return u.name == quantity.unit; });
  if (unit == std::end(kSizeUnits)) {
    const std::string shown(base::Shorten(quantity.number, 20));
    value.Fail(fmt::format("{} has {}: write {}GiB, or KiB, MiB or TiB", Quoted(value.key),
                           quantity.unit.empty()
                               ? std::string("no unit")
                               : fmt::format("the unit {}", Quoted(quantity.unit)),
                           shown));
    return false;
  }
  const auto number = ToDouble(quantity.number);
  const double bytes = number ? *number * std::ldexp(1.0, unit->power) : INFINITY;
  if (bytes < static_cast<double>(range.least) || bytes > static_cast<double>(range.most)) {
    MustBe(value, fmt::format("from {} to {}", SizeInWords(range.least), SizeInWords(range.most)));
    return false;
  }
  *out = static_cast<std::uint64_t>(std::llround(bytes));
  return true;
}

bool Read(const Value& value, double* out, Real range) {
  const auto text = Plain(value, "a number", "number");
  if (!text) return false;
  if (!IsDecimal(*text, true)) {
    MustBe(value, "a number");
    return false;
  }
  const auto number = ToDouble(*text);
  if (!number || !InRange(*number, range)) {
    MustBe(value, InWords(range, ""));
    return false;
  }
  *out = *number;
  return true;
}

bool Read(const Value& value, bool* out) {
  const bool plain = value.node.kind == Node::Kind::kScalar && !value.node.quoted;
  if (!plain || (value.node.text != "true" && value.node.text != "false")) {
    MustBe(value, "true or false");
    return false;
  }
  *out = value.node.text == "true";
  return true;
}

bool Read(const Value& value, base::Percent* out, Real range) {
  const auto number = ReadWithUnit(value, {"a percentage like 3%", "percentage", "%"}, range);
  if (number) out->value = *number;
  return number.has_value();
}

bool Read(const Value& value, base::TokensPerSecond* out, Real range) {
  const auto number = ReadWithUnit(value, {"a rate like 900tok/s", "rate", "tok/s"}, range);
  if (number) out->value = *number;
  return number.has_value();
}

bool Read(const Value& value, base::RequestsPerSecond* out, Real range) {
  const auto number = ReadWithUnit(value, {"a rate like 0.3/s", "rate", "/s"}, range);
  if (number) out->value = *number;
  return number.has_value();
}

bool Read(const Value& value, std::chrono::microseconds* out, Span range) {
  const auto time = ReadTime(value, range);
  if (time) *out = *time;
  return time.has_value();
}

bool Read(const Value& value, std::chrono::milliseconds* out, Span range) {
  const auto time = ReadTime(value, range);
  if (!time) return false;
  *out = std::chrono::duration_cast<std::chrono::milliseconds>(*time);
  if (*out != *time) {
    value.Fail(fmt::format("{} must be whole milliseconds, not {}", Quoted(value.key),
                           Describe(value.node)));
  }
  return *out == *time;
}

bool Read(const Value& value, std::vector<std::string>* out, Text text) {
  if (!IsList(value)) return false;
  std::vector<std::string> list;
  bool good = true;
  for (const Value& item : Items(value, value.key)) {
    std::string element;
    if (item.node.kind != Node::Kind::kScalar) {
      item.Fail(fmt::format("an element of {} must be text, not {}", Quoted(value.key),
                            Describe(item.node)));
      good = false;
    } else if (item.node.text.empty() && (text == Text::kNotEmpty || !item.node.quoted)) {
      item.Fail(fmt::format("an element of {} is empty", Quoted(value.key)));
      good = false;
    } else {
      list.push_back(item.node.text);
    }
  }
  if (good) *out = std::move(list);
  return good;
}

std::optional<std::size_t> Choose(const Value& value, const std::vector<std::string>& names) {
  std::string text;
  if (!Read(value, &text)) return std::nullopt;
  const auto it = std::find(names.begin(), names.end(), text);
  if (it != names.end()) return static_cast<std::size_t>(it - names.begin());
  const std::string meant = DidYouMean(text, names);
  value.Fail(fmt::format("unknown {} {}{}", value.key, Quoted(text),
                         meant.empty() ? ": write " + base::JoinList(names, "or") : meant));
  return std::nullopt;
}

bool IsList(const Value& value) {
  if (value.node.kind == Node::Kind::kSequence) return true;
  MustBe(value, "a list");
  return false;
}

std::vector<Value> Items(const Value& list, std::string_view item) {
  std::vector<Value> items;
  for (std::size_t i = 0; i < list.node.items.size(); ++i) {
    const Node& node = *list.node.items[i];
    items.push_back({list.context, std::string(item), fmt::format("{}[{}]", list.path, i), node});
    list.context.locations[items.back().path] = node.at;
  }
  return items;
}

std::vector<Value> Entries(const Value& mapping) {
  std::vector<Value> entries;
  if (mapping.node.kind != Node::Kind::kMapping) {
    MustBe(mapping, "a mapping");
    return entries;
  }
  for (const Node::Entry& entry : mapping.node.entries) {
    entries.push_back({mapping.context, entry.key, mapping.path + "." + entry.key, *entry.value});
    mapping.context.locations[entries.back().path] = entry.at;
  }
  return entries;
}

Mapping::Mapping(Context& context, const Node& node, std::string what, std::string path)
    : context_(context), node_(node), what_(std::move(what)), path_(std::move(path)) {
  if (!valid()) Fail(fmt::format("{} must be a mapping, not {}", what_, Describe(node)));
}

Mapping::~Mapping() {
  if (!valid() || abandoned_) return;
  for (const Node::Entry& entry : node_.entries) {
    if (std::find(known_.begin(), known_.end(), entry.key) == known_.end()) {
      context_.errors.Add(entry.at, fmt::format("unknown key {}{}", Quoted(entry.key),
                                                DidYouMean(entry.key, known_)));
    }
  }
}

const Node::Entry* Mapping::Find(std::string_view key) const {
  const auto it = std::find_if(node_.entries.begin(), node_.entries.end(),
                               [&](const Node::Entry& entry) { return entry.key == key; });
  return it == node_.entries.end() ? nullptr : &*it;
}

bool Mapping::Has(std::string_view key) {
  return Find(key) != nullptr;
}

std::optional<Value> Mapping::Take(std::string_view key) {
  known_.emplace_back(key);
  const Node::Entry* entry = Find(key);
  if (entry == nullptr) return std::nullopt;
  std::string path = path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  context_.locations[path] = entry->value->at;
  return Value{context_, std::string(key), std::move(path), *entry->value};
}

std::optional<Value> Mapping::Need(std::string_view key, std::string_view hint) {
  auto value = Take(key);
  if (!value && valid()) {
    Fail(fmt::format("{} has no \"{}\"{}{}", what_, key, hint.empty() ? "" : ": ", hint));
  }
  return value;
}

void Mapping::Refuse(std::string_view key, std::string_view why) {
  const Node::Entry* entry = Find(key);
  if (entry == nullptr) return;
  known_.emplace_back(key);
  context_.errors.Add(entry->at, fmt::format("\"{}\" {}", key, why));
}

void Mapping::Fail(std::string message) const {
  context_.errors.Add(node_.at, std::move(message));
}

}  // namespace upgrade_gate::plan
