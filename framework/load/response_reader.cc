#include "framework/load/response_reader.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/load/sse_parser.h"

namespace upgrade_gate::load {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t kQuoteBytes = 200;
constexpr std::size_t kBodyHeadBytes = 400;
constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";

std::string Quote(std::string_view text) {
  // Cut before escaping: a hostile megabyte is not made visible first.
  const std::string visible = base::Visible(text.substr(0, 4 * kQuoteBytes));
  return "\"" + base::Shorten(visible, kQuoteBytes) + "\"";
}

template <typename Value>
std::string Shown(const Value& value) {
  return base::Shorten(base::Visible(simdjson::minify(value)), kQuoteBytes);
}

bool IsEventStream(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  while (!type.empty() && (type.front() == ' ' || type.front() == '\t')) type.remove_prefix(1);
  constexpr std::string_view kWanted = "text/event-stream";
  return std::equal(type.begin(), type.end(), kWanted.begin(), kWanted.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

// Turns data into a DOM; the memory is kept from event to event.
class JsonReader {
 public:
  simdjson::error_code Parse(std::string_view data, dom::element& root) {
    const simdjson::error_code error = ParsePadded(data, root);
    if (error != simdjson::NUMBER_ERROR) return error;
    // simdjson refuses integers over 64 bits, which are JSON all the same. Our
    // strict reader makes doubles of them, so that only the value is judged.
    const auto value = base::ParseJson(data);
    return value ? ParsePadded(base::WriteJsonLine(*value), root) : error;
  }

 private:
  simdjson::error_code ParsePadded(std::string_view data, dom::element& root) {
    if (padded_.size() < data.size() + simdjson::SIMDJSON_PADDING) {
      padded_.resize(2 * data.size() + simdjson::SIMDJSON_PADDING);
    }
    std::memcpy(padded_.data(), data.data(), data.size());
    return parser_.parse(padded_.data(), data.size(), false).get(root);
  }

  dom::parser parser_;
  std::vector<char> padded_;
};

// The members of an event that we read. A doubled one would be read differently
// by different clients, so it is not guessed which is meant.
struct Members {
  std::optional<dom::element> choices, usage, error, object;
  bool empty = true;
  std::string_view doubled;
};

void Take(std::optional<dom::element>& member, dom::element value, std::string_view name,
          std::string_view& doubled) {
  if (member) doubled = name;
  member = value;
}

Members Read(dom::object object) {
  Members members;
  for (const dom::key_value_pair field : object) {
    members.empty = false;
    if (field.key == "choices") {
      Take(members.choices, field.value, "choices", members.doubled);
    } else if (field.key == "usage") {
      Take(members.usage, field.value, "usage", members.doubled);
    } else if (field.key == "error") {
      Take(members.error, field.value, "error", members.doubled);
    } else if (field.key == "object") {
      Take(members.object, field.value, "object", members.doubled);
    }
  }
  if (members.error && members.error->is_null()) members.error.reset();
  if (members.choices && members.choices->is_null()) members.choices.reset();
  return members;
}

// Why the count is not usable, or nothing.
std::string ReadCount(dom::object usage, const char* name, std::int64_t& count) {
  dom::element value;
  if (usage.at_key(name).get(value) != simdjson::SUCCESS)
    return fmt::format("\"{}\" is absent", name);
  if (value.get(count) != simdjson::SUCCESS) {
    std::uint64_t large = 0;
    const bool integer = value.get(large) == simdjson::SUCCESS;
    return fmt::format("\"{}\" is {}{}", name, Shown(value), integer ? ", out of range" : "");
  }
  return count < 0 ? fmt::format("\"{}\" is {}", name, count) : "";
}

}  // namespace

struct ResponseReader::Impl {
  explicit Impl(ReaderCaps reader_caps)
      : caps(reader_caps), sse([this](const SseEvent& event) { OnEvent(event); }) {}

  void OnEvent(const SseEvent& event);
  void OnObject(dom::object object, std::string_view data, base::Instant at);
  // False if its shape is not what the protocol promises.
  bool OnChoice(dom::element choice, std::string_view data, std::int64_t& text_bytes);
  void OnUsage(dom::element value);
  void Malformed(std::string_view why, std::string_view data);
  void Note(bool& noted, std::string text);

  ReaderCaps caps;
  SseParser sse;
  JsonReader json;
  Observation seen;
  std::string raw;
  std::size_t body_bytes = 0;
  std::string over_cap;
  bool usage_null = false;
  bool noted_replacement = false, noted_empty_object = false, noted_empty_reason = false;
};

void ResponseReader::Impl::Malformed(std::string_view why, std::string_view data) {
  if (seen.malformed.empty()) seen.malformed = fmt::format("{}: {}", why, Quote(data));
}

void ResponseReader::Impl::Note(bool& noted, std::string text) {
  if (!noted) seen.notes.push_back(std::move(text));
  noted = true;
}

void ResponseReader::Impl::OnEvent(const SseEvent& event) {
  if (seen.done_seen) {
    if (seen.after_done.empty()) seen.after_done = Quote(event.data);
    return;
  }
  if (event.type == "error") {
    if (seen.in_band_error.empty()) seen.in_band_error = Quote(event.data);
    return;
  }
  if (event.data == "[DONE]") {
    seen.done_seen = true;
    seen.done = event.at;
    return;
  }
  dom::element root;
  dom::object object;
  if (const auto error = json.Parse(event.data, root); error != simdjson::SUCCESS) {
    return Malformed(error == simdjson::UTF8_ERROR ? "not UTF-8" : "not JSON", event.data);
  }
  if (root.get(object) != simdjson::SUCCESS) return Malformed("not an object", event.data);
  OnObject(object, event.data, event.at);
}

void ResponseReader::Impl::OnObject(dom::object object, std::string_view data, base::Instant at) {
  const Members members = Read(object);
  if (!members.doubled.empty()) {
    return Malformed(fmt::format("doubled key \"{}\"", members.doubled), data);
  }
  std::string_view kind;
  const bool error_object =
      members.object && members.object->get(kind) == simdjson::SUCCESS && kind == "error";
  if (members.error || error_object) {
    // {"error":{…}}, or the older form {"object":"error","message":…}.
    if (seen.in_band_error.empty()) {
      seen.in_band_error = members.error ? Shown(*members.error) : Shown(object);
    }
    return;
  }
  if (members.empty) return Note(noted_empty_object, "an event with an empty object");

  std::int64_t text_bytes = 0;
  if (members.choices) {
    dom::array choices;
    if (members.choices->get(choices) != simdjson::SUCCESS) {
      return Malformed("\"choices\" is not an array", data);
    }
    for (const dom::element choice : choices) {
      if (!OnChoice(choice, data, text_bytes)) return;
    }
  } else if (!members.usage) {
    return Malformed("no \"choices\"", data);
  }
  if (members.usage) OnUsage(*members.usage);

  ++seen.events;
  if (text_bytes == 0) return;
  ++seen.chunks;
  seen.text_bytes += text_bytes;
  if (!seen.first_token) seen.first_token = at;
  if (!seen.first_text) seen.first_text = at;
  seen.last_token = at;
}

bool ResponseReader::Impl::OnChoice(dom::element choice, std::string_view data,
                                    std::int64_t& text_bytes) {
  dom::object object;
  if (choice.get(object) != simdjson::SUCCESS) {
    Malformed("a choice is not an object", data);
    return false;
  }
  std::optional<dom::element> text_value, reason_value;
  std::string_view doubled;
  for (const dom::key_value_pair field : object) {
    if (field.key == "text") Take(text_value, field.value, "text", doubled);
    if (field.key == "finish_reason") Take(reason_value, field.value, "finish_reason", doubled);
  }
  if (!doubled.empty()) {
    Malformed(fmt::format("doubled key \"{}\"", doubled), data);
    return false;
  }
  std::string_view text;
  if (text_value && !text_value->is_null() && text_value->get(text) != simdjson::SUCCESS) {
    Malformed("\"text\" is not a string", data);
    return false;
  }
  std::string_view reason;
  if (reason_value && !reason_value->is_null()) {
    if (reason_value->get(reason) != simdjson::SUCCESS) {
      Malformed("\"finish_reason\" is not a string", data);
      return false;
    }
    if (reason.empty()) {
      Note(noted_empty_reason, "\"finish_reason\" is an empty string where null is meant");
    } else {
      seen.finish_reason = base::Shorten(base::Visible(reason.substr(0, 64)), 64);
    }
  }
  text_bytes += static_cast<std::int64_t>(text.size());
  if (!noted_replacement && text.find(kReplacementCharacter) != text.npos) {
    Note(noted_replacement, "U+FFFD (replacement character) in the text");
  }
  return true;
}

void ResponseReader::Impl::OnUsage(dom::element value) {
  if (value.is_null()) {  // in every chunk but the last one: the usual form
    usage_null = true;
    return;
  }
  if (!seen.usage_problem.empty()) return;
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    seen.usage_problem = fmt::format("\"usage\" is {}", Shown(value));
    return;
  }
  evidence::Usage usage;
  std::string problem = ReadCount(object, "prompt_tokens", usage.prompt_tokens);
  if (problem.empty()) {
    problem = ReadCount(object, "completion_tokens", usage.completion_tokens);
  }
  if (problem.empty() && seen.usage) {
    const auto fell = [&](const char* name, std::int64_t before, std::int64_t now) {
      if (now < before) problem = fmt::format("\"{}\" fell from {} to {}", name, before, now);
    };
    fell("prompt_tokens", seen.usage->prompt_tokens, usage.prompt_tokens);
    fell("completion_tokens", seen.usage->completion_tokens, usage.completion_tokens);
  }
  if (problem.empty()) {
    seen.usage = usage;
  } else {
    seen.usage.reset();
    seen.usage_problem = std::move(problem);
  }
}

ResponseReader::ResponseReader(ReaderCaps caps) : impl_(std::make_unique<Impl>(caps)) {}
ResponseReader::~ResponseReader() = default;
ResponseReader::ResponseReader(ResponseReader&&) noexcept = default;
ResponseReader& ResponseReader::operator=(ResponseReader&&) noexcept = default;

void ResponseReader::OnHeaders(int status, std::string_view content_type,
                               std::string_view retry_after) {
  Observation& seen = impl_->seen;
  seen.http_status = status;
  seen.content_type = base::Shorten(base::Visible(content_type.substr(0, 800)), kQuoteBytes);
  seen.event_stream = IsEventStream(content_type);
  if (!retry_after.empty()) {
    seen.retry_after = base::Shorten(base::Visible(retry_after.substr(0, 800)), kQuoteBytes);
  }
}

bool ResponseReader::OnBody(std::string_view bytes, base::Instant at) {
  Impl& impl = *impl_;
  if (!impl.over_cap.empty()) return false;
  if (bytes.empty()) return true;
  if (!impl.seen.first_byte) impl.seen.first_byte = at;
  const std::size_t room = impl.caps.raw_bytes - std::min(impl.caps.raw_bytes, impl.raw.size());
  impl.raw.append(bytes.substr(0, room));
  const std::size_t allowed = impl.caps.body_bytes - impl.body_bytes;
  const bool whole = bytes.size() <= allowed;
  // What is over the cap is not read, so that a split of the bytes changes nothing.
  bytes = bytes.substr(0, allowed);
  impl.body_bytes += bytes.size();
  if (impl.seen.http_status == 200 && impl.seen.event_stream && !impl.sse.Feed(bytes, at)) {
    impl.over_cap = impl.sse.over_cap();
  } else if (!whole) {
    impl.over_cap = fmt::format("a body over {} bytes", impl.caps.body_bytes);
  }
  return impl.over_cap.empty();
}

void ResponseReader::OnEnd(EndKind end, std::string_view detail, base::Instant at) {
  Impl& impl = *impl_;
  Observation& seen = impl.seen;
  seen.closed = at;
  seen.end = end;
  seen.end_detail = base::Shorten(base::Visible(detail.substr(0, 4096)), 1024);
  if (end == EndKind::kOverCap && !impl.over_cap.empty()) seen.end_detail = impl.over_cap;
  if (!seen.usage && seen.usage_problem.empty()) {
    seen.usage_problem = impl.usage_null ? "null" : "absent";
  }
  if (seen.http_status && !(*seen.http_status == 200 && seen.event_stream)) {
    seen.body_head = base::Shorten(
        base::Visible(std::string_view(impl.raw).substr(0, 2 * kBodyHeadBytes)), kBodyHeadBytes);
  }
  if (const std::string unfinished = impl.sse.unfinished(); !unfinished.empty()) {
    seen.unfinished = Quote(unfinished);
    if (seen.done_seen) {
      seen.notes.push_back("the body ended inside an event after [DONE]: " + seen.unfinished);
    }
  }
  if (end == EndKind::kLingered) {
    seen.notes.push_back(fmt::format("the socket stayed open after [DONE]{}{}",
                                     seen.end_detail.empty() ? "" : ": ", seen.end_detail));
  }
}

void ResponseReader::Reset() {
  Impl& impl = *impl_;
  impl.sse.Reset();
  impl.seen = Observation{};
  impl.raw.clear();
  impl.body_bytes = 0;
  impl.over_cap.clear();
  impl.usage_null = impl.noted_replacement = impl.noted_empty_object = impl.noted_empty_reason =
      false;
}

bool ResponseReader::done_seen() const {
  return impl_->seen.done_seen;
}
const Observation& ResponseReader::observation() const {
  return impl_->seen;
}
const std::string& ResponseReader::raw() const {
  return impl_->raw;
}

}  // namespace upgrade_gate::load
