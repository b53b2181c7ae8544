#include "framework/load/response_reader.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "framework/base/text.h"
#include "framework/evidence/limits.h"
#include "framework/load/event_json.h"
#include "framework/load/event_pattern.h"
#include "framework/load/quote.h"
#include "framework/load/tool_calls.h"

namespace upgrade_gate::load {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t kBodyHeadBytes = 400;
constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";

bool IsMediaType(std::string_view content_type, std::string_view wanted) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  while (!type.empty() && (type.front() == ' ' || type.front() == '\t')) type.remove_prefix(1);
  return std::equal(type.begin(), type.end(), wanted.begin(), wanted.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

bool IsFailureReason(std::string_view reason) {
  // vLLM's words for a generation that the engine gave up.
  return reason == "error" || reason == "abort";
}

// Why the count is not usable, or nothing.
std::string ReadCount(const std::optional<dom::element>& value, const char* name,
                      std::int64_t& count) {
  if (!value) return fmt::format("\"{}\" is absent", name);
  if (value->get(count) != simdjson::SUCCESS) {
    std::uint64_t large = 0;
    const bool integer = value->get(large) == simdjson::SUCCESS;
    return fmt::format("\"{}\" is {}{}", name, Shown(*value), integer ? ", out of range" : "");
  }
  if (count < 0) return fmt::format("\"{}\" is {}", name, count);
  return count > evidence::kMaxTokens ? fmt::format("\"{}\" is {}, out of range", name, count) : "";
}

}  // namespace

struct ResponseReader::Impl {
  Impl(ReaderCaps reader_caps, std::shared_ptr<evidence::Spool> spool)
      : caps(reader_caps),
        sse([this](const SseEvent& event) { OnEvent(event); }, reader_caps.sse),
        raw(std::move(spool)),
        tool_calls(reader_caps.tool_calls, reader_caps.argument_bytes) {}

  // What of a choice has been seen.
  struct Choice {
    bool output = false, finished = false;
  };
  // What one event brought.
  struct Gain {
    std::int64_t text_bytes = 0, reasoning_bytes = 0;
    bool tool_call = false;
    std::string_view text;  // of a plain one, valid while its event is read
    std::size_t choice = 0;
    bool plain = true;  // a text in one choice, and nothing else to be noticed
    bool any() const { return text_bytes > 0 || reasoning_bytes > 0 || tool_call; }
  };

  void OnEvent(const SseEvent& event);
  // True if it was taken: an event like an earlier one but for its text.
  bool OnRepeated(std::string_view data);
  // The whole of a response that is no stream.
  void OnWholeBody();
  // Each returns false, and has said why, if the shape is not what the protocol
  // promises or a cap was exceeded.
  bool ParseObject(std::string_view data, dom::object& object);
  void OnObject(dom::object object, std::string_view data);
  bool OnChoice(dom::element choice, std::string_view data, Gain& gain);
  bool OnMessage(dom::element message, std::size_t choice, std::string_view data, Gain& gain);
  bool OnText(const std::optional<dom::element>& value, const char* name, std::string_view data,
              std::string_view& text);
  bool OnToolCalls(dom::element list, std::size_t choice, std::string_view data, Gain& gain);
  bool OnToolCall(dom::element item, std::size_t choice, std::int64_t place, std::string_view data,
                  Gain& gain);
  void OnReasoningField(const char* name);
  void OnUsage(dom::element value);
  bool Malformed(std::string_view why, std::string_view data);
  void InBandError(std::string text);
  void Note(bool& noted, std::string text);

  ReaderCaps caps;
  SseParser sse;
  ResponseForm form;
  Observation seen;
  evidence::RawBytes raw;
  std::string body;  // of what is not a stream: whole if it is to be read, otherwise its head
  std::size_t body_bytes = 0;
  base::Instant last_byte;
  std::string over_cap;
  std::vector<Choice> choices;
  EventPattern pattern;
  ToolCalls tool_calls;
  bool usage_null = false;
  bool noted_replacement = false, noted_empty_object = false, noted_empty_reason = false,
       noted_both_reasonings = false, noted_late_output = false;
};

bool ResponseReader::Impl::Malformed(std::string_view why, std::string_view data) {
  if (seen.malformed.empty()) seen.malformed = fmt::format("{}: {}", why, Quote(data));
  return false;
}

void ResponseReader::Impl::InBandError(std::string text) {
  if (seen.in_band_error.empty()) seen.in_band_error = std::move(text);
}

void ResponseReader::Impl::Note(bool& noted, std::string text) {
  if (!noted) seen.notes.push_back(std::move(text));
  noted = true;
}

void ResponseReader::Impl::OnEvent(const SseEvent& event) {
  if (!over_cap.empty()) return;
  if (seen.done_seen) {
    if (seen.after_done.empty()) seen.after_done = Quote(event.data);
    return;
  }
  if (event.type == "error") return InBandError(Quote(event.data));
  if (event.data.size() < 64 && Trimmed(event.data) == "[DONE]") {
    seen.done_seen = true;
    seen.done = event.at;
    if (event.data != "[DONE]") seen.padded_done = Quote(event.data);
    return;
  }
  const std::int64_t chunks = seen.chunks;
  const bool text = seen.text_bytes > 0;
  if (!OnRepeated(event.data)) {
    dom::object object;
    if (!ParseObject(event.data, object)) return;
    OnObject(object, event.data);
  }
  if (seen.chunks == chunks) return;
  if (!seen.first_token) seen.first_token = event.at;
  if (!text && seen.text_bytes > 0) seen.first_text = event.at;
  seen.last_token = event.at;
}

bool ResponseReader::Impl::OnRepeated(std::string_view data) {
  const auto text = pattern.Match(data);
  if (!text || choices[pattern.choice()].finished) return false;
  if (!noted_replacement && text->find(kReplacementCharacter) != text->npos) return false;
  ++seen.events;
  ++seen.chunks;
  seen.text_bytes += static_cast<std::int64_t>(text->size());
  return true;
}

void ResponseReader::Impl::OnWholeBody() {
  dom::object object;
  if (!ParseObject(body, object)) return;
  OnObject(object, body);
  if (seen.chunks > 0) seen.last_token = last_byte;
}

bool ResponseReader::Impl::ParseObject(std::string_view data, dom::object& object) {
  dom::element root;
  switch (ParseEvent(data, root)) {
    case simdjson::SUCCESS:
      break;
    case simdjson::DEPTH_ERROR:
      over_cap = fmt::format("JSON nested over {} levels", kMaxJsonDepth);
      return false;
    case simdjson::UTF8_ERROR:
      return Malformed("not UTF-8", data);
    default:
      return Malformed("not JSON", data);
  }
  return root.get(object) == simdjson::SUCCESS || Malformed("not an object", data);
}

void ResponseReader::Impl::OnObject(dom::object object, std::string_view data) {
  std::optional<dom::element> choices_value, usage, error, kind_value;
  const std::string_view doubled = ReadMembers(object, {{"choices", &choices_value},
                                                        {"usage", &usage, true},
                                                        {"error", &error},
                                                        {"object", &kind_value}});
  if (!doubled.empty()) {
    Malformed(fmt::format("doubled key \"{}\"", doubled), data);
    return;
  }
  std::string_view kind;
  const bool error_object =
      kind_value && kind_value->get(kind) == simdjson::SUCCESS && kind == "error";
  if (error || error_object) {
    // {"error":{…}}, or the older form {"object":"error","message":…}.
    return InBandError(error ? Shown(*error) : Shown(object));
  }
  if (object.begin() == object.end()) {
    return Note(noted_empty_object, "an event with an empty object");
  }

  Gain gain;
  if (choices_value) {
    dom::array list;
    if (choices_value->get(list) != simdjson::SUCCESS) {
      Malformed("\"choices\" is not an array", data);
      return;
    }
    gain.plain = list.size() == 1;
    for (const dom::element choice : list) {
      if (!OnChoice(choice, data, gain)) return;
    }
  } else if (!usage) {
    Malformed("no \"choices\"", data);
    return;
  }
  if (usage && usage->is_null()) {
    usage_null = true;  // in every chunk but the last one: the usual form
  } else if (usage) {
    gain.plain = false;
    OnUsage(*usage);
  }

  ++seen.events;
  if (!gain.any()) return;
  ++seen.chunks;
  seen.text_bytes += gain.text_bytes;
  seen.reasoning_bytes += gain.reasoning_bytes;
  if (gain.plain && form.stream && caps.recognise_repeats)
    pattern.Learn(data, form.api == plan::Api::kChat ? "content" : "text", gain.text, gain.choice);
}

bool ResponseReader::Impl::OnText(const std::optional<dom::element>& value, const char* name,
                                  std::string_view data, std::string_view& text) {
  if (!value) return true;
  if (value->get(text) != simdjson::SUCCESS) {
    return Malformed(fmt::format("\"{}\" is not a string", name), data);
  }
  if (!noted_replacement && text.find(kReplacementCharacter) != text.npos) {
    Note(noted_replacement, "U+FFFD (replacement character) in the text");
  }
  return true;
}

bool ResponseReader::Impl::OnChoice(dom::element choice, std::string_view data, Gain& gain) {
  dom::object object;
  if (choice.get(object) != simdjson::SUCCESS) return Malformed("a choice is not an object", data);
  const bool chat = form.api == plan::Api::kChat;
  const char* const content_key = !chat ? "text" : form.stream ? "delta" : "message";
  std::optional<dom::element> index_value, content, reason_value, error, ids;
  const std::string_view doubled = ReadMembers(object, {{"index", &index_value},
                                                        {content_key, &content},
                                                        {"finish_reason", &reason_value},
                                                        {"error", &error},
                                                        {"token_ids", &ids}});
  if (!doubled.empty()) return Malformed(fmt::format("doubled key \"{}\"", doubled), data);
  if (error) {
    InBandError(Shown(*error));
    return false;
  }
  std::int64_t index = 0;
  if (index_value &&
      (index_value->get(index) != simdjson::SUCCESS || index < 0 || index >= form.choices)) {
    return Malformed(fmt::format("\"index\" is {}; {} choice{} asked for", Shown(*index_value),
                                 form.choices, form.choices == 1 ? " was" : "s were"),
                     data);
  }
  const auto place = static_cast<std::size_t>(index);

  Gain of_choice;
  if (chat) {
    if (content && !OnMessage(*content, place, data, of_choice)) return false;
  } else {
    std::string_view text;
    if (!OnText(content, "text", data, text)) return false;
    of_choice.text_bytes = static_cast<std::int64_t>(text.size());
    of_choice.text = text;
  }
  std::string_view reason;
  if (reason_value && reason_value->get(reason) != simdjson::SUCCESS) {
    return Malformed("\"finish_reason\" is not a string", data);
  }
  if (dom::array list; ids && ids->get(list) == simdjson::SUCCESS) {
    seen.token_ids += static_cast<std::int64_t>(list.size());
  }

  if (choices.size() <= place) choices.resize(place + 1);
  Choice& state = choices[place];
  if (of_choice.any()) {
    if (state.finished) Note(noted_late_output, "output after the choice's finish_reason");
    seen.choices_with_output += state.output ? 0 : 1;
    state.output = true;
    gain.text_bytes += of_choice.text_bytes;
    gain.reasoning_bytes += of_choice.reasoning_bytes;
    gain.tool_call = gain.tool_call || of_choice.tool_call;
  }
  gain.text = of_choice.text;
  gain.choice = place;
  gain.plain = gain.plain && of_choice.text_bytes > 0 && of_choice.reasoning_bytes == 0 &&
               !of_choice.tool_call && !reason_value && !ids;
  if (!reason.empty()) {
    seen.finish_reason = base::Shorten(base::Visible(reason.substr(0, 64)), 64);
    seen.choices_finished += state.finished ? 0 : 1;
    state.finished = true;
    if (IsFailureReason(reason)) InBandError(fmt::format("finish_reason \"{}\"", reason));
  } else if (reason_value) {
    Note(noted_empty_reason, "\"finish_reason\" is an empty string where null is meant");
  }
  return true;
}

void ResponseReader::Impl::OnReasoningField(const char* name) {
  if (seen.reasoning_field.empty()) {
    seen.reasoning_field = name;
  } else if (seen.reasoning_field != name) {
    seen.reasoning_field = "reasoning+reasoning_content";
  }
}

bool ResponseReader::Impl::OnMessage(dom::element message, std::size_t choice,
                                     std::string_view data, Gain& gain) {
  dom::object object;
  if (message.get(object) != simdjson::SUCCESS) {
    return Malformed(fmt::format("\"{}\" is not an object", form.stream ? "delta" : "message"),
                     data);
  }
  std::optional<dom::element> content, reasoning_content, reasoning, calls;
  const std::string_view doubled = ReadMembers(object, {{"content", &content},
                                                        {"reasoning_content", &reasoning_content},
                                                        {"reasoning", &reasoning},
                                                        {"tool_calls", &calls}});
  if (!doubled.empty()) return Malformed(fmt::format("doubled key \"{}\"", doubled), data);
  std::string_view text, long_name, short_name;
  if (!OnText(content, "content", data, text) ||
      !OnText(reasoning_content, "reasoning_content", data, long_name) ||
      !OnText(reasoning, "reasoning", data, short_name)) {
    return false;
  }
  gain.text_bytes = static_cast<std::int64_t>(text.size());
  gain.text = text;
  // Servers that are changing the name send the same text under both.
  gain.reasoning_bytes = static_cast<std::int64_t>(std::max(long_name.size(), short_name.size()));
  if (!long_name.empty()) OnReasoningField("reasoning_content");
  if (!short_name.empty()) OnReasoningField("reasoning");
  if (!long_name.empty() && !short_name.empty() && long_name != short_name) {
    Note(noted_both_reasonings, "\"reasoning\" and \"reasoning_content\" differ in one event");
  }
  return !calls || OnToolCalls(*calls, choice, data, gain);
}

bool ResponseReader::Impl::OnToolCalls(dom::element list, std::size_t choice, std::string_view data,
                                       Gain& gain) {
  dom::array items;
  if (list.get(items) != simdjson::SUCCESS) {
    return Malformed("\"tool_calls\" is not an array", data);
  }
  std::int64_t place = 0;
  for (const dom::element item : items) {
    if (!OnToolCall(item, choice, place++, data, gain)) return false;
  }
  return true;
}

bool ResponseReader::Impl::OnToolCall(dom::element item, std::size_t choice, std::int64_t place,
                                      std::string_view data, Gain& gain) {
  dom::object object;
  if (item.get(object) != simdjson::SUCCESS) return Malformed("a tool call is not an object", data);
  std::optional<dom::element> index_value, id_value, function, name_value, arguments_value;
  std::string_view doubled =
      ReadMembers(object, {{"index", &index_value}, {"id", &id_value}, {"function", &function}});
  if (function) {
    dom::object inner;
    if (function->get(inner) != simdjson::SUCCESS) {
      return Malformed("\"function\" is not an object", data);
    }
    const std::string_view inner_doubled =
        ReadMembers(inner, {{"name", &name_value}, {"arguments", &arguments_value}});
    if (!inner_doubled.empty()) doubled = inner_doubled;
  }
  if (!doubled.empty()) return Malformed(fmt::format("doubled key \"{}\"", doubled), data);
  std::string_view id, name, arguments;
  if (!OnText(id_value, "id", data, id) || !OnText(name_value, "name", data, name) ||
      !OnText(arguments_value, "arguments", data, arguments)) {
    return false;
  }
  gain.tool_call = true;

  // Without an index the pieces of two calls cannot be told apart; a body that
  // is whole has them in order.
  std::int64_t index = place;
  if (index_value ? index_value->get(index) != simdjson::SUCCESS || index < 0 : form.stream) {
    tool_calls.Problem(fmt::format("a tool call whose \"index\" is {}: {}",
                                   index_value ? Shown(*index_value) : "absent", Quote(data)));
    return true;  // the rest of the event is read on
  }
  over_cap = tool_calls.Add({.choice = static_cast<std::int64_t>(choice),
                             .index = index,
                             .id = id,
                             .name = name,
                             .arguments = arguments});
  return over_cap.empty();
}

void ResponseReader::Impl::OnUsage(dom::element value) {
  if (!seen.usage_problem.empty()) return;
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    seen.usage_problem = fmt::format("\"usage\" is {}", Shown(value));
    return;
  }
  std::optional<dom::element> prompt_tokens, completion_tokens;
  const std::string_view doubled = ReadMembers(
      object,
      {{"prompt_tokens", &prompt_tokens, true}, {"completion_tokens", &completion_tokens, true}});
  evidence::Usage usage;
  std::string problem = doubled.empty() ? "" : fmt::format("\"{}\" is there twice", doubled);
  if (problem.empty()) problem = ReadCount(prompt_tokens, "prompt_tokens", usage.prompt_tokens);
  if (problem.empty()) {
    problem = ReadCount(completion_tokens, "completion_tokens", usage.completion_tokens);
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

ResponseReader::ResponseReader(ReaderCaps caps, std::shared_ptr<evidence::Spool> spool)
    : impl_(std::make_unique<Impl>(caps, std::move(spool))) {}
ResponseReader::~ResponseReader() = default;
ResponseReader::ResponseReader(ResponseReader&&) noexcept = default;
ResponseReader& ResponseReader::operator=(ResponseReader&&) noexcept = default;

void ResponseReader::OnHeaders(int status, std::string_view content_type,
                               std::string_view retry_after) {
  Observation& seen = impl_->seen;
  seen.http_status = status;
  seen.content_type = base::Shorten(base::Visible(content_type.substr(0, 800)), kQuoteBytes);
  seen.media_type_ok =
      IsMediaType(content_type, impl_->form.stream ? "text/event-stream" : "application/json");
  if (!retry_after.empty()) {
    seen.retry_after = base::Shorten(base::Visible(retry_after.substr(0, 800)), kQuoteBytes);
  }
}

bool ResponseReader::OnBody(std::string_view bytes, base::Instant at) {
  Impl& impl = *impl_;
  if (!impl.over_cap.empty()) return false;
  if (bytes.empty()) return true;
  if (!impl.seen.first_byte) impl.seen.first_byte = at;
  impl.last_byte = at;
  const std::size_t allowed = impl.caps.body_bytes - impl.body_bytes;
  const bool whole = bytes.size() <= allowed;
  // What is over the cap is not read, so that a split of the bytes changes nothing.
  bytes = bytes.substr(0, allowed);
  impl.body_bytes += bytes.size();
  impl.raw.Append(bytes.substr(0, impl.caps.raw_bytes - impl.raw.size()));
  if (impl.seen.http_status != 200 || !impl.seen.media_type_ok) {
    impl.body.append(
        bytes.substr(0, 2 * kBodyHeadBytes - std::min(2 * kBodyHeadBytes, impl.body.size())));
  } else if (!impl.form.stream) {
    impl.body.append(bytes);
  } else if (!impl.sse.Feed(bytes, at) && impl.over_cap.empty()) {
    impl.over_cap = impl.sse.over_cap();
  }
  if (impl.over_cap.empty() && !whole) {
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
  if (seen.http_status && !(*seen.http_status == 200 && seen.media_type_ok)) {
    seen.body_head = base::Shorten(base::Visible(impl.body), kBodyHeadBytes);
  } else if (!impl.form.stream && end == EndKind::kComplete && !impl.body.empty()) {
    impl.OnWholeBody();
    if (!impl.over_cap.empty()) seen.end = EndKind::kOverCap;
  }
  if (seen.end == EndKind::kOverCap && !impl.over_cap.empty()) seen.end_detail = impl.over_cap;
  impl.tool_calls.Finish();
  seen.tool_calls = impl.tool_calls.count();
  seen.tool_call_problem = impl.tool_calls.problem();
  seen.tool_call_without_arguments = impl.tool_calls.any_without_arguments();
  if (!seen.usage && seen.usage_problem.empty()) {
    seen.usage_problem = impl.usage_null ? "null" : "absent";
  }
  const std::string unfinished = impl.over_cap.empty() ? impl.sse.unfinished() : "";
  if (!unfinished.empty()) {
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

void ResponseReader::Reset(const ResponseForm& form) {
  Impl& impl = *impl_;
  impl.form = form;
  impl.sse.Reset();
  impl.seen = Observation{};
  impl.raw.Clear();
  impl.body.clear();
  impl.body_bytes = 0;
  impl.over_cap.clear();
  impl.choices.clear();
  impl.pattern.Clear();
  impl.tool_calls.Clear();
  impl.usage_null = impl.noted_replacement = impl.noted_empty_object = impl.noted_empty_reason =
      impl.noted_both_reasonings = impl.noted_late_output = false;
}

bool ResponseReader::done_seen() const {
  return impl_->seen.done_seen;
}
const Observation& ResponseReader::observation() const {
  return impl_->seen;
}
const evidence::RawBytes& ResponseReader::raw() const {
  return impl_->raw;
}
evidence::RawBytes ResponseReader::TakeRaw() {
  return std::move(impl_->raw);
}

}  // namespace upgrade_gate::load
