#include "framework/cli/load_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "framework/base/text.h"
#include "framework/base/units.h"
#include "framework/evidence/limits.h"
#include "framework/load/completion_request.h"

namespace upgrade_gate::cli {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::int64_t kMostInFlight = 10'000;

std::string Quoted(std::string_view text) {
  constexpr std::size_t kMostShown = 80;
  return "\"" + base::Shorten(base::Visible(text), kMostShown) + "\"";
}

bool Consume(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

class Reader {
 public:
  void Fail(std::string_view argument, std::string_view problem) {
    if (!errors_.empty()) errors_ += "\n";
    errors_ += fmt::format("{}: {}", argument, problem);
  }
  const std::string& errors() const { return errors_; }

  template <typename T>
  void Whole(std::string_view argument, const std::optional<std::string>& text, T least, T most,
             T& to) {
    if (!text) return;
    T value{};
    const char* const end = text->data() + text->size();
    const auto [rest, error] = std::from_chars(text->data(), end, value);
    if (error != std::errc() || rest != end || value < least || value > most) {
      Fail(argument,
           fmt::format("{} is not a whole number from {} to {}", Quoted(*text), least, most));
      return;
    }
    to = value;
  }

  template <typename T>
  void Duration(std::string_view argument, const std::optional<std::string>& text, T& to) {
    if (!text) return;
    const auto quantity = base::ReadQuantity(*text);
    const auto time = quantity ? base::DurationOf(*quantity) : std::nullopt;
    if (!time || *time < milliseconds(1) || *time > hours(24)) {
      Fail(argument,
           Quoted(*text) + " is not a duration from 1ms to 24h: write 250ms, 30s, 45min or 2h");
      return;
    }
    to = std::chrono::duration_cast<T>(*time);
  }

  // The index of the name; nothing, and an error, for any other.
  std::optional<std::size_t> Choice(std::string_view argument, const std::string& text,
                                    const std::vector<std::string>& names) {
    const auto found = std::find(names.begin(), names.end(), text);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
    const std::string meant = base::DidYouMean(text, names);
    Fail(argument, "unknown " + Quoted(text) +
                       (meant.empty() ? ": write " + base::JoinList(names, "or") : meant));
    return std::nullopt;
  }

 private:
  std::string errors_;
};

// Host, port and path as a URL may have them; nothing that a shell, a log or libcurl
// would read otherwise.
void ReadUrl(Reader& reader, const std::string& text, LoadSettings& settings) {
  constexpr const char* kArgument = "URL";
  std::string_view url = text;
  const auto wrong = [&](std::string_view why) {
    reader.Fail(kArgument, Quoted(text) + " " + std::string(why));
  };
  if (!url.starts_with("http://") && !url.starts_with("https://")) {
    return wrong("is no address: write http://HOST:PORT or https://HOST");
  }
  const std::string_view after_scheme = url.substr(url.find("//") + 2);
  const std::string_view authority = after_scheme.substr(0, after_scheme.find('/'));
  if (url.find_first_of("?#") != url.npos) {
    return wrong("has a query or a fragment: leave them out");
  }
  if (authority.find('@') != authority.npos) {
    // Not quoted back: a log is no place for it.
    return reader.Fail(kArgument,
                       "holds a name or a password, which every process of the machine can read: "
                       "write --token-env or --token-file");
  }
  if (authority.empty() || authority.front() == ':') return wrong("names no host");
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._~:/[]%+").find(c) != std::string_view::npos;
  };
  if (!std::all_of(url.begin(), url.end(), allowed)) {
    return wrong("has a character that an address cannot have: write it as %XX");
  }
  while (Consume(url, "/")) {
  }
  const std::string_view path = load::PathOf(settings.round.api);
  for (const plan::Api api : {plan::Api::kCompletions, plan::Api::kChat}) {
    if (api != settings.round.api && url.ends_with(load::PathOf(api))) {
      return wrong(fmt::format("is not of --api {}: write --api {}", plan::Name(settings.round.api),
                               plan::Name(api)));
    }
  }
  if (!Consume(url, path)) Consume(url, "/v1");
  settings.base = std::string(url);
  settings.endpoint = settings.base + std::string(path);
}

bool IsHeaderName(std::string_view name) {
  const auto is_token = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), is_token);
}

void ReadHeader(Reader& reader, const std::string& text, LoadSettings& settings) {
  constexpr const char* kArgument = "--header";
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  // The value is not quoted back: it may be a secret.
  if (colon == text.npos || !IsHeaderName(name)) {
    return reader.Fail(kArgument, "is not 'NAME: VALUE', with a name of letters, digits and \"-\"");
  }
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (lower == "authorization") {
    return reader.Fail(kArgument,
                       "\"Authorization\" in an argument can be read by every process of the "
                       "machine: write --token-env or --token-file");
  }
  for (const char* own : {"accept", "connection", "content-length", "content-type", "expect",
                          "host", "transfer-encoding"}) {
    if (lower == own) return reader.Fail(kArgument, Quoted(name) + " is set by the client itself");
  }
  std::string_view value = std::string_view(text).substr(colon + 1);
  value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
  const auto acts = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
  if (value.empty() || std::any_of(value.begin(), value.end(), acts)) {
    return reader.Fail(kArgument,
                       "the value of " + Quoted(name) + " is empty or has a control character");
  }
  settings.headers.emplace_back(name, value);
}

void ReadLoad(Reader& reader, const LoadOptions& options, LoadSettings& settings) {
  plan::Case& round = settings.round;
  if (options.concurrency.has_value() == options.rate.has_value()) {
    reader.Fail("--concurrency, --rate",
                options.rate ? "only one of them has a meaning: a closed or an open loop"
                             : "write one of them: --concurrency 8 or --rate 2.5/s");
  }
  if (options.requests.has_value() == options.duration.has_value()) {
    reader.Fail("--requests, --duration",
                options.duration ? "only one of them has a meaning"
                                 : "write one of them: --requests 64 or --duration 60s");
  }
  reader.Whole<int>("--concurrency", options.concurrency, 1, kMostInFlight, round.concurrency);
  reader.Whole<int>("--requests", options.requests, 1, evidence::kMaxRequests, round.requests);
  if (options.duration) {
    std::chrono::nanoseconds duration{};
    reader.Duration("--duration", options.duration, duration);
    settings.duration = duration;
  }
  if (options.arrivals && !options.rate) {
    reader.Fail("--arrivals", "has a meaning only with --rate");
  }
  if (!options.rate) return;
  round.open.emplace();
  round.open->arrivals = plan::Arrivals::kPoisson;
  const auto rate = base::ReadQuantity(*options.rate);
  constexpr double kMostRate = 100'000;
  if (!rate || rate->unit != "/s" || rate->number <= 0 || rate->number > kMostRate) {
    reader.Fail("--rate",
                Quoted(*options.rate) + " is not a rate above 0/s, at most 100000/s: write 2.5/s");
  } else {
    round.open->rate.value = rate->number;
  }
  if (options.arrivals) {
    const auto arrivals = reader.Choice("--arrivals", *options.arrivals, {"constant", "poisson"});
    if (arrivals == 0) round.open->arrivals = plan::Arrivals::kConstant;
  }
}

void ReadFile(Reader& reader, std::string_view argument, const std::optional<std::string>& path) {
  if (!path) return;
  std::error_code error;
  const auto type = std::filesystem::status(*path, error).type();
  if (path->empty()) {
    reader.Fail(argument, "names no file");
  } else if (type != std::filesystem::file_type::regular &&
             type != std::filesystem::file_type::not_found) {
    reader.Fail(argument, Quoted(*path) + " is there and is not a regular file");
  }
}

}  // namespace

base::Result<LoadSettings> ReadLoadOptions(const LoadOptions& options) {
  Reader reader;
  LoadSettings settings;
  plan::Case& round = settings.round;
  round.name = "load";
  settings.model = options.model;
  if (settings.model.empty()) reader.Fail("--model", "is empty");
  if (!base::IsValidUtf8(settings.model)) reader.Fail("--model", "is not UTF-8");
  if (options.api) {
    const auto api = reader.Choice("--api", *options.api, {"completions", "chat"});
    if (api == 1) {
      round.api = plan::Api::kChat;
      round.prompts.kind = plan::PromptKind::kText;
    }
  }
  if (options.stop) {
    const auto stop = reader.Choice("--stop", *options.stop, {"fixed", "natural"});
    if (stop == 1) round.stop = plan::OutputStop::kNatural;
  }
  if (options.acceptance) {
    const auto profile = reader.Choice("--acceptance", *options.acceptance, {"strict", "lenient"});
    if (profile == 1) settings.acceptance = plan::Acceptance::kLenient;
  }
  ReadUrl(reader, options.url, settings);
  reader.Whole<std::int64_t>("--input-tokens", options.input_tokens, 1, 10'000'000,
                             round.input_tokens);
  reader.Whole<std::int64_t>("--output-tokens", options.output_tokens, 1, 1'000'000,
                             round.output_tokens);
  ReadLoad(reader, options, settings);
  constexpr int kMostRounds = 1000;
  reader.Whole<int>("--rounds", options.rounds, 1, kMostRounds, settings.rounds);
  settings.warmup = round.early_in_flight();
  reader.Whole<int>("--warmup", options.warmup, 0, evidence::kMaxRequests, settings.warmup);
  reader.Duration("--stall-limit", options.stall_limit, settings.stall_limit);
  reader.Duration("--request-timeout", options.request_timeout, settings.request_timeout);
  if (options.seed) {
    std::uint64_t seed = 0;
    reader.Whole<std::uint64_t>("--seed", options.seed, 0, INT64_MAX, seed);
    settings.seed = seed;
  }
  for (const std::string& header : options.headers) ReadHeader(reader, header, settings);
  if (options.token_env && options.token_file) {
    reader.Fail("--token-env, --token-file", "only one of them has a meaning");
  }
  settings.token_env = options.token_env;
  settings.token_file = options.token_file;
  settings.ca_file = options.ca_file.value_or("");
  settings.json = options.json;
  if (settings.json != "-") ReadFile(reader, "--json", settings.json);
  settings.save_vllm = options.save_vllm;
  ReadFile(reader, "--save-vllm", settings.save_vllm);
  for (const std::string& text : options.fail_if) {
    auto condition = gates::ParseFailIf(text);
    if (condition) {
      settings.fail_if.push_back(*std::move(condition));
    } else {
      reader.Fail("--fail-if", condition.error().message);
    }
  }
  if (!reader.errors().empty()) return base::UsageError(reader.errors());
  return settings;
}

}  // namespace upgrade_gate::cli
