#include "framework/base/json.h"

#include <cmath>
#include <set>
#include <vector>

#include "framework/base/text.h"

namespace upgrade_gate::base {
namespace {

constexpr std::size_t kMaxDepth = 64;

// Builds the value while checking what nlohmann's own parser lets pass.
class StrictHandler final : public nlohmann::json_sax<Json> {
 public:
  std::string error;
  Json root;

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (!std::isfinite(value)) return Refuse("number out of range: " + text);
    return Put(value);
  }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t&) override { return Refuse("binary value"); }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override {
    keys_.pop_back();
    stack_.pop_back();
    return true;
  }
  bool end_array() override { return end_object(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) return Refuse("doubled key \"" + name + "\"");
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& exception) override {
    std::string what = exception.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: cause"
    if (const auto end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    return Refuse("byte " + std::to_string(position) + ": " + what);
  }

 private:
  bool Refuse(std::string why) {
    if (error.empty()) error = std::move(why);
    return false;
  }
  Json* Add(Json value) {
    if (stack_.empty()) {
      root = std::move(value);
      return &root;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    // Doubled keys are refused above: no need for operator[], which searches the
    // whole object for each member and so takes quadratic time.
    auto& object = parent.get_ref<Json::object_t&>();
    object.emplace_back(key_, std::move(value));
    return &object.back().second;
  }
  bool Put(Json value) {
    Add(std::move(value));
    return true;
  }
  bool Open(Json value) {
    if (stack_.size() >= kMaxDepth) {
      return Refuse("nested deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    stack_.push_back(Add(std::move(value)));
    keys_.emplace_back();
    return true;
  }

  std::vector<Json*> stack_;  // a container only grows at its open end, so these stay valid
  std::vector<std::set<std::string>> keys_;
  std::string key_;
};

tl::unexpected<Error> WrongType(std::string_view key, std::string_view wanted) {
  return EvidenceError("\"" + std::string(key) + "\" is not " + std::string(wanted));
}

}  // namespace

Result<Json> ParseJson(std::string_view text) {
  // nlohmann's lexer takes a NUL for the end of the text and hides what follows.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    return EvidenceError("not valid JSON: byte " + std::to_string(nul + 1) + ": a NUL");
  }
  StrictHandler handler;
  try {
    if (!Json::sax_parse(text.begin(), text.end(), &handler)) {
      // It quotes what was read last, whatever bytes that was.
      return EvidenceError("not valid JSON: " + Visible(handler.error));
    }
  } catch (const std::exception& exception) {
    return EvidenceError("not valid JSON: " + Visible(exception.what()));
  }
  return std::move(handler.root);
}

std::string WriteJson(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string WriteJsonLine(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<const Json*> Member(const Json& object, std::string_view key) {
  if (!object.is_object()) return EvidenceError("not an object where one was expected");
  const auto it = object.find(std::string(key));
  if (it == object.end()) return EvidenceError("\"" + std::string(key) + "\" is missing");
  return &*it;
}

Result<std::string> StringMember(const Json& object, std::string_view key) {
  UG_ASSIGN(const Json* member, Member(object, key));
  if (!member->is_string()) return WrongType(key, "a string");
  return member->get<std::string>();
}

Result<std::int64_t> IntMember(const Json& object, std::string_view key) {
  UG_ASSIGN(const Json* member, Member(object, key));
  if (!member->is_number_integer()) return WrongType(key, "an integer");
  // An unsigned value beyond the signed range would come out negative.
  if (member->is_number_unsigned() && member->get<std::uint64_t>() > INT64_MAX) {
    return WrongType(key, "an integer of 64 bits with a sign");
  }
  return member->get<std::int64_t>();
}

Result<double> NumberMember(const Json& object, std::string_view key) {
  UG_ASSIGN(const Json* member, Member(object, key));
  if (!member->is_number()) return WrongType(key, "a number");
  return member->get<double>();
}

Result<bool> BoolMember(const Json& object, std::string_view key) {
  UG_ASSIGN(const Json* member, Member(object, key));
  if (!member->is_boolean()) return WrongType(key, "true or false");
  return member->get<bool>();
}

}  // namespace upgrade_gate::base
