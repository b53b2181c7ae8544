// Typed, strict reading of one mapping of a plan: each key is one line of the
// section's function, and what nobody asked for is an unknown key.
//
//   Mapping m(context, node, "a case", "workload.cases[2]");
//   m.Required("input_tokens", &c.input_tokens, Whole{1, 10'000'000});
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "framework/base/units.h"
#include "framework/plan/document.h"
#include "framework/plan/errors.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::plan {

struct Context {
  Errors& errors;
  std::map<std::string, Location>& locations;  // of values, by path: becomes Plan::locations
};

// One value: what its messages call it, and its place in the plan.
struct Value {
  Context& context;
  std::string key;
  std::string path;
  const Node& node;

  void Fail(std::string message) const { context.errors.Add(node.at, std::move(message)); }
};

// Inclusive bounds, printed when they are broken.
struct Whole {
  std::int64_t least, most;
};
enum class Bound { kIncluded, kExcluded };
struct Real {
  double least, most;
  Bound at_least = Bound::kIncluded;
  Bound at_most = Bound::kIncluded;
};
struct Span {
  std::chrono::microseconds least, most;
};
// In bytes; written with a unit.
struct Size {
  std::uint64_t least, most;
};
enum class Text { kNotEmpty, kMayBeEmpty };
// A value that base::IsPlainName accepts: it becomes a file name and an id.
struct PlainName {};
struct Digest {};
template <typename E>
struct Choice {
  std::string_view name;
  E value;
};
template <typename E>
using Choices = std::vector<Choice<E>>;

// Each adds an error and returns false when the value is not what is wanted;
// `out` is then left alone.
bool Read(const Value& value, std::string* out, Text text = Text::kNotEmpty);
bool Read(const Value& value, std::string* out, PlainName);
bool Read(const Value& value, std::string* out, Digest);
bool Read(const Value& value, std::int64_t* out, Whole range);
bool Read(const Value& value, int* out, Whole range);
bool Read(const Value& value, std::uint64_t* out);
bool Read(const Value& value, double* out, Real range);
bool Read(const Value& value, bool* out);
bool Read(const Value& value, base::Percent* out, Real range);
bool Read(const Value& value, base::TokensPerSecond* out, Real range);
bool Read(const Value& value, base::RequestsPerSecond* out, Real range);
bool Read(const Value& value, std::chrono::milliseconds* out, Span range);
bool Read(const Value& value, std::chrono::microseconds* out, Span range);
bool Read(const Value& value, std::uint64_t* out, Size range);
bool Read(const Value& value, std::vector<std::string>* out, Text text = Text::kNotEmpty);
// Choices of an optional itself, where a name stands for nothing, are the next one's.
template <typename T, typename... Limits>
requires(!(std::is_same_v<Limits, Choices<std::optional<T>>> ||
           ...)) bool Read(const Value& value, std::optional<T>* out, const Limits&... limits) {
  T read{};
  if (!Read(value, &read, limits...)) return false;
  *out = std::move(read);
  return true;
}

// The index of the name that the value is; adds an error for any other.
std::optional<std::size_t> Choose(const Value& value, const std::vector<std::string>& names);
template <typename E>
bool Read(const Value& value, E* out, const Choices<E>& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.emplace_back(choice.name);
  const auto chosen = Choose(value, names);
  if (chosen) *out = choices[*chosen].value;
  return chosen.has_value();
}

// Adds an error and returns false for a value that is not a list.
bool IsList(const Value& value);
// The items of a list as values, called `item` in messages.
std::vector<Value> Items(const Value& list, std::string_view item);
// The entries of a mapping whose keys are the user's; an error for anything else.
std::vector<Value> Entries(const Value& mapping);

// Reads the known keys of a mapping. Its end of life adds an error for every
// key that was not asked for, with the nearest of those that were.
class Mapping {
 public:
  // `what` begins the message of a missing key: "a case", "the server".
  Mapping(Context& context, const Node& node, std::string what, std::string path);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool Has(std::string_view key);
  std::optional<Value> Take(std::string_view key);
  // Adds an error if the key is missing; `hint` says what to write.
  std::optional<Value> Need(std::string_view key, std::string_view hint = {});

  template <typename T, typename... Limits>
  bool Required(std::string_view key, T* out, const Limits&... limits) {
    const auto value = Need(key);
    return value && Read(*value, out, limits...);
  }
  template <typename T, typename... Limits>
  bool Optional(std::string_view key, T* out, const Limits&... limits) {
    const auto value = Take(key);
    return value && Read(*value, out, limits...);
  }

  // A key that is known but has no meaning here: an error if it is there.
  void Refuse(std::string_view key, std::string_view why);
  // Unknown keys are not reported: the rest of the mapping is not understood.
  void Abandon() { abandoned_ = true; }
  void Fail(std::string message) const;
  bool valid() const { return node_.kind == Node::Kind::kMapping; }
  const Node& node() const { return node_; }
  const std::string& path() const { return path_; }

 private:
  const Node::Entry* Find(std::string_view key) const;

  Context& context_;
  const Node& node_;
  std::string what_;
  std::string path_;
  std::vector<std::string> known_;
  bool abandoned_ = false;
};

}  // namespace upgrade_gate::plan
