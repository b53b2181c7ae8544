#include "framework/load/completion_request.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "framework/base/json.h"

namespace upgrade_gate::load {
namespace {

using base::Json;
using plan::OutputStop;

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::string Joined(const TokenIds& ids) {
  std::string text;
  text.reserve(ids.size() * 6);
  for (const std::int64_t id : ids) {
    if (!text.empty()) text.push_back(',');
    fmt::format_to(std::back_inserter(text), FMT_COMPILE("{}"), id);
  }
  return text;
}

std::string Quoted(const std::string& text) {
  return base::WriteJsonLine(Json(text));
}

std::string MessagesJson(const std::vector<Message>& messages) {
  std::string json = "[";
  for (const Message& message : messages) {
    if (json.size() > 1) json += ',';
    json += fmt::format(R"({{"role":{},"content":)", Quoted(message.role));
    if (message.images.empty()) {
      json += Quoted(message.text);
    } else {
      json += fmt::format(R"([{{"type":"text","text":{}}})", Quoted(message.text));
      for (const std::string& url : message.images) {
        json += fmt::format(R"(,{{"type":"image_url","image_url":{{"url":{}}}}})", Quoted(url));
      }
      json += ']';
    }
    json += '}';
  }
  return json + "]";
}

// `input` is `"prompt":…` or `"messages":…`. Written by hand: the order of the
// keys and the form of the numbers are part of the bytes that both arms must
// get. fmt writes doubles in their shortest form, whatever the locale.
std::string BodyOf(const RequestSettings& settings, std::string_view input) {
  const plan::Sampling& sampling = settings.sampling;
  const bool fixed = settings.stop == OutputStop::kFixed;
  return fmt::format(
      R"({{"model":{},{},"max_tokens":{},"min_tokens":{},"temperature":{},"top_p":{},"top_k":{},)"
      R"("min_p":{},"presence_penalty":{},"frequency_penalty":{},"repetition_penalty":{},)"
      R"("seed":{},"n":1,"ignore_eos":{},"stream":true,"stream_options":{{"include_usage":true}}}})",
      Quoted(settings.served_name), input, settings.output_tokens,
      fixed ? settings.output_tokens : 0, sampling.temperature, sampling.top_p, sampling.top_k,
      sampling.min_p, sampling.presence_penalty, sampling.frequency_penalty,
      sampling.repetition_penalty, sampling.seed, fixed);
}

// A whole number of the body, `fallback` where it has none.
base::Result<std::int64_t> Count(const Json& body, const char* key, std::int64_t fallback,
                                 std::int64_t most) {
  const auto it = body.find(key);
  if (it == body.end() || it->is_null()) return fallback;
  if (!it->is_number_unsigned() || it->get<std::uint64_t>() < 1 ||
      it->get<std::uint64_t>() > static_cast<std::uint64_t>(most)) {
    return base::UsageError(fmt::format("\"{}\" must be a whole number from 1 to {}", key, most));
  }
  return it->get<std::int64_t>();
}

base::Result<PreparedRequest> PrepareWhole(const RequestSettings& settings,
                                           const WholeBody& whole) {
  constexpr std::int64_t kMostChoices = 128;
  UG_ASSIGN(Json body, base::ParseJson(whole.json));
  if (!body.is_object()) return base::UsageError("a body must be a JSON object");
  const char* const input = settings.api == plan::Api::kChat ? "messages" : "prompt";
  if (!body.contains(input)) {
    return base::UsageError(
        fmt::format("the body has no \"{}\", which {} takes", input, PathOf(settings.api)));
  }
  PreparedRequest request;
  UG_ASSIGN(const std::int64_t choices, Count(body, "n", 1, kMostChoices));
  const char* const limit =
      body.contains("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
  UG_ASSIGN(request.expected.output_tokens,
            Count(body, limit, settings.output_tokens, std::int64_t{1'000'000}));
  request.expected.form.choices = static_cast<int>(choices);

  body["model"] = settings.served_name;
  const auto unless = [&](const char* key, const Json& value) {
    if (!body.contains(key) || body[key].is_null()) body[key] = value;
  };
  const plan::Sampling& sampling = settings.sampling;
  const bool fixed = settings.stop == OutputStop::kFixed;
  unless(limit, request.expected.output_tokens);
  unless("min_tokens", fixed ? request.expected.output_tokens : 0);
  unless("temperature", sampling.temperature);
  unless("top_p", sampling.top_p);
  unless("top_k", sampling.top_k);
  unless("min_p", sampling.min_p);
  unless("presence_penalty", sampling.presence_penalty);
  unless("frequency_penalty", sampling.frequency_penalty);
  unless("repetition_penalty", sampling.repetition_penalty);
  unless("seed", sampling.seed);
  unless("n", 1);
  unless("ignore_eos", fixed);
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  request.body = base::WriteJsonLine(body);
  return request;
}

}  // namespace

std::string_view PathOf(plan::Api api) {
  return api == plan::Api::kChat ? "/v1/chat/completions" : "/v1/completions";
}

base::Sha256Hex PromptFingerprint(const Prompt& prompt) {
  return std::visit(Overloaded{[](const TokenIds& ids) { return base::Sha256Of(Joined(ids)); },
                               [](const std::string& text) { return base::Sha256Of(text); },
                               [](const std::vector<Message>& messages) {
                                 std::string text;
                                 for (const Message& message : messages) {
                                   text += message.role + "\n" + message.text + "\n";
                                   for (const std::string& url : message.images) text += url + "\n";
                                 }
                                 return base::Sha256Of(text);
                               },
                               [](const WholeBody& body) { return base::Sha256Of(body.json); }},
                    prompt.input);
}

RequestSettings SettingsOf(const plan::ResolvedPlan& plan, const plan::Case& of) {
  return {.served_name = plan.model.served_name,
          .sampling = of.sampling,
          .api = of.api,
          .output_tokens = of.output_tokens,
          .stop = of.stop,
          .allow_empty_output = of.allow_empty_output,
          .acceptance = plan.workload.acceptance};
}

base::Result<PreparedRequest> PrepareRequest(const RequestSettings& settings,
                                             const Prompt& prompt) {
  PreparedRequest request;
  request.expected.output_tokens = settings.output_tokens;
  if (const auto* whole = std::get_if<WholeBody>(&prompt.input)) {
    UG_ASSIGN(request, PrepareWhole(settings, *whole));
  } else if (const auto* ids = std::get_if<TokenIds>(&prompt.input)) {
    request.body = BodyOf(settings, fmt::format(R"("prompt":[{}])", Joined(*ids)));
  } else if (const auto* text = std::get_if<std::string>(&prompt.input)) {
    request.body = BodyOf(settings, fmt::format(R"("prompt":{})", Quoted(*text)));
  } else {
    request.body = BodyOf(
        settings, R"("messages":)" + MessagesJson(std::get<std::vector<Message>>(prompt.input)));
  }
  request.body_sha256 = base::Sha256Of(request.body);
  request.prompt_sha256 = PromptFingerprint(prompt);
  Expectation& expected = request.expected;
  expected.input_tokens = prompt.tokens;
  expected.form.api = settings.api;
  expected.input = settings.api == plan::Api::kChat ? InputCount::kAtLeast : InputCount::kExact;
  expected.stop = settings.stop;
  expected.allow_empty_output = settings.allow_empty_output;
  expected.profile = settings.acceptance;
  return request;
}

PreparedRequest PrepareCompletion(const std::string& served_name, const plan::Sampling& sampling,
                                  const TokenIds& prompt, std::int64_t output_tokens) {
  RequestSettings settings;
  settings.served_name = served_name;
  settings.sampling = sampling;
  settings.output_tokens = output_tokens;
  auto request = PrepareRequest(
      settings, {.input = prompt, .tokens = static_cast<std::int64_t>(prompt.size())});
  UG_CHECK(request.has_value());
  return *std::move(request);
}

}  // namespace upgrade_gate::load
