// `workload:` and `order:`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "framework/plan/decode.h"

namespace upgrade_gate::plan {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr Whole kRounds{1, 1000};
constexpr Whole kRequests{1, 1'000'000};

void DecodeExcludedIds(const Value& value, std::vector<std::int64_t>* ids) {
  if (!IsList(value)) return;
  for (const Value& item : Items(value, "excluded id")) {
    if (std::int64_t id = 0; Read(item, &id, Whole{0, 20'000'000})) ids->push_back(id);
  }
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

void DecodeSyntheticTokens(Mapping& m, Prompts* prompts) {
  m.Optional("first_id", &prompts->first_id, Whole{0, 10'000'000});
  m.Optional("id_count", &prompts->id_count, Whole{2, 10'000'000});
  m.Optional("shared_prefix", &prompts->shared_prefix, Whole{0, 10'000'000});
  m.Optional("turns", &prompts->turns, Whole{1, 1000});
  const auto excluded = m.Take("excluded_ids");
  if (!excluded) return;
  DecodeExcludedIds(*excluded, &prompts->excluded_ids);
  std::erase_if(prompts->excluded_ids, [&](std::int64_t id) {
    return id < prompts->first_id || id >= prompts->first_id + prompts->id_count;
  });
  if (static_cast<std::int64_t>(prompts->excluded_ids.size()) + 2 > prompts->id_count) {
    excluded->Fail(fmt::format("\"excluded_ids\" leaves fewer than 2 of {} ids to draw from",
                               prompts->id_count));
  }
}

void DecodePrompts(const Value& value, Prompts* prompts) {
  *prompts = {};
  Mapping m(value.context, value.node, "\"prompts\"", value.path);
  if (!m.Required("kind", &prompts->kind,
                  Choices<PromptKind>{{"synthetic-tokens", PromptKind::kSyntheticTokens},
                                      {"text", PromptKind::kText},
                                      {"file", PromptKind::kFile}})) {
    return m.Abandon();
  }
  m.Optional("fresh", &prompts->fresh);
  if (prompts->kind == PromptKind::kFile) {
    m.Required("path", &prompts->file.path);
    if (const auto sha256 = m.Need("sha256", "the same prompts in every run and both arms")) {
      Read(*sha256, &prompts->file.sha256, Digest{});
    }
    m.Required("format", &prompts->format,
               Choices<PromptFormat>{{"jsonl", PromptFormat::kJsonl},
                                     {"sharegpt", PromptFormat::kShareGpt},
                                     {"aiperf", PromptFormat::kAiperf}});
    return;
  }
  if (const auto seed = m.Need("seed", "both arms must get the same prompts, in every run")) {
    Read(*seed, &prompts->seed);
  }
  if (prompts->kind == PromptKind::kText) {
    m.Optional("images", &prompts->images, Whole{0, 16});
    m.Optional("image_pixels", &prompts->image_pixels, Whole{1, 512});
  } else {
    DecodeSyntheticTokens(m, prompts);
  }
}

void DecodeSampling(const Value& value, Sampling* sampling) {
  Mapping m(value.context, value.node, "\"sampling\"", value.path);
  m.Optional("temperature", &sampling->temperature, Real{0, 2});
  m.Optional("top_p", &sampling->top_p, Real{0, 1, Bound::kExcluded});
  m.Optional("seed", &sampling->seed, Whole{0, INT64_MAX});
  m.Optional("top_k", &sampling->top_k, Whole{-1, 10'000'000});
  m.Optional("min_p", &sampling->min_p, Real{0, 1});
  m.Optional("presence_penalty", &sampling->presence_penalty, Real{-2, 2});
  m.Optional("frequency_penalty", &sampling->frequency_penalty, Real{-2, 2});
  m.Optional("repetition_penalty", &sampling->repetition_penalty, Real{0, 10, Bound::kExcluded});
}

// What a case may say otherwise than the workload: which requests are made.
void DecodeRequestKeys(Mapping& m, Api* api, Prompts* prompts, Sampling* sampling) {
  m.Optional("api", api, Choices<Api>{{"completions", Api::kCompletions}, {"chat", Api::kChat}});
  if (const auto of = m.Take("prompts")) DecodePrompts(*of, prompts);
  if (const auto of = m.Take("sampling")) DecodeSampling(*of, sampling);
}

// 256, or {max: 512, stop: natural}
void DecodeOutput(const Value& value, Case* c) {
  constexpr Whole kTokens{1, 1'000'000};
  if (value.node.kind != Node::Kind::kMapping) {
    Read(value, &c->output_tokens, kTokens);
    return;
  }
  Mapping m(value.context, value.node, "\"output_tokens\"", value.path);
  m.Required("max", &c->output_tokens, kTokens);
  m.Required("stop", &c->stop, Choices<OutputStop>{{"natural", OutputStop::kNatural}});
}

// What the prompts ask of the case's other keys.
void CheckPrompts(Mapping& m, const Case& c) {
  const Prompts& prompts = c.prompts;
  const auto fail = [&](std::string message) {
    m.Fail(fmt::format("the case {}: {}", Quoted(c.name), message));
  };
  if (prompts.kind == PromptKind::kSyntheticTokens && c.api == Api::kChat) {
    fail("chat takes text, not token ids: write prompts {kind: text, seed: 7}");
  }
  if (prompts.images > 0 && c.api == Api::kCompletions)
    fail("only chat takes images: write api: chat");
  if (prompts.shared_prefix > 0 && prompts.shared_prefix >= c.input_tokens) {
    fail(fmt::format("the shared prefix of {} tokens leaves nothing of {} input tokens",
                     prompts.shared_prefix, c.input_tokens));
  }
  if (prompts.turns > 1 && c.requests % prompts.turns != 0) {
    fail(fmt::format("{} requests are not whole conversations of {} turns", c.requests,
                     prompts.turns));
  }
  if (prompts.turns > 1 && c.input_tokens - prompts.shared_prefix < prompts.turns) {
    fail(fmt::format("{} input tokens are too few for {} turns", c.input_tokens, prompts.turns));
  }
}

void DecodeWarmup(const Value& value, std::optional<int>* requests) {
  Mapping m(value.context, value.node, "\"warmup\"", value.path);
  const auto count = m.Need("requests");
  if (!count) return;
  const Node& node = count->node;
  const bool is_word = node.kind == Node::Kind::kScalar && !node.text.empty() &&
                       (node.text[0] < '0' || node.text[0] > '9') && node.text[0] != '-';
  if (!is_word) {
    Read(*count, requests, Whole{0, kRequests.most});
  } else if (node.text != "concurrency") {
    count->Fail(fmt::format("\"requests\" must be concurrency or a whole number, not {}",
                            Quoted(node.text)));
  }
}

// The requests of a round that lasts `duration`: as many as are expected.
void RequestsOf(const Value& duration, std::chrono::milliseconds lasts, Case* c) {
  const OpenLoop& open = *c->open;
  if (lasts < open.ramp) {
    return duration.Fail("\"duration\" is shorter than the ramp: the rate is never reached");
  }
  const double seconds = std::chrono::duration<double>(lasts - open.ramp / 2).count();
  const double requests = std::round(open.rate.value * seconds);
  if (requests < 1 || requests > static_cast<double>(kRequests.most)) {
    return duration.Fail(
        fmt::format("\"duration\" gives {:.0f} requests at {}/s: it must give from 1 to 1,000,000",
                    requests, open.rate.value));
  }
  c->requests = static_cast<int>(requests);
}

// rate, arrivals and what goes with them; `requests` or `duration`.
void DecodeOpenLoop(Mapping& m, Case* c) {
  OpenLoop& open = c->open.emplace();
  m.Refuse("concurrency", "cannot stand beside \"rate\": write one of the two");
  const bool has_rate =
      m.Required("rate", &open.rate, Real{0, 100'000, Bound::kExcluded, Bound::kIncluded});
  m.Required("arrivals", &open.arrivals,
             Choices<Arrivals>{{"constant", Arrivals::kConstant}, {"poisson", Arrivals::kPoisson}});
  m.Optional("ramp", &open.ramp, Span{milliseconds(1), hours(24)});
  m.Optional("max_in_flight", &open.max_in_flight, Whole{1, 10'000});
  const auto duration = m.Take("duration");
  if (!duration) {
    m.Required("requests", &c->requests, kRequests);
    return;
  }
  m.Refuse("requests", "cannot stand beside \"duration\", which gives them by the rate");
  std::chrono::milliseconds lasts{};
  if (Read(*duration, &lasts, Span{milliseconds(1), hours(24)}) && has_rate) {
    RequestsOf(*duration, lasts, c);
  }
}

void DecodeClosedLoop(Mapping& m, Case* c) {
  for (const std::string_view key : {"arrivals", "ramp", "max_in_flight", "duration"}) {
    m.Refuse(key, "has a meaning with a \"rate\" only");
  }
  if (const auto value = m.Need("concurrency", "or a \"rate\" like 0.3/s")) {
    Read(*value, &c->concurrency, Whole{1, 10'000});
  }
  m.Required("requests", &c->requests, kRequests);
  if (c->requests > 0 && c->requests < c->concurrency) {
    m.Take("requests")
        ->Fail(fmt::format("{} requests can never reach the concurrency {}: write at least {}",
                           c->requests, c->concurrency, c->concurrency));
  }
}

void DecodeCase(const Value& value, Case* c) {
  Mapping m(value.context, value.node, "a case", value.path);
  m.Required("name", &c->name, PlainName{});
  DecodeRequestKeys(m, &c->api, &c->prompts, &c->sampling);
  if (c->prompts.kind == PromptKind::kFile) {
    m.Refuse("input_tokens",
             "has no meaning with prompts from a file, which are as long as they are");
  } else {
    m.Required("input_tokens", &c->input_tokens, Whole{1, 10'000'000});
  }
  if (const auto output = m.Need("output_tokens")) DecodeOutput(*output, c);
  m.Optional("allow_empty_output", &c->allow_empty_output);
  m.Optional("shape", &c->shape, PlainName{});
  if (m.Has("rate")) {
    DecodeOpenLoop(m, c);
  } else {
    DecodeClosedLoop(m, c);
  }
  CheckPrompts(m, *c);
}

void DecodeCases(const Value& value, const Workload& workload, std::vector<Case>* cases) {
  if (!IsList(value)) return;
  if (value.node.items.empty())
    value.Fail("\"cases\" is empty: a workload needs at least one case");
  for (const Value& item : Items(value, "case")) {
    Case& c = cases->emplace_back();
    c.location = item.node.at;
    c.api = workload.api;
    c.prompts = workload.prompts;
    c.sampling = workload.sampling;
    DecodeCase(item, &c);
  }
}

}  // namespace

void DecodeWorkload(const Value& value, Workload* workload) {
  Mapping m(value.context, value.node, "the workload", value.path);
  m.Need("prompts");
  DecodeRequestKeys(m, &workload->api, &workload->prompts, &workload->sampling);
  m.Optional(
      "acceptance", &workload->acceptance,
      Choices<Acceptance>{{"strict", Acceptance::kStrict}, {"lenient", Acceptance::kLenient}});
  m.Optional("keep_streams", &workload->keep_streams,
             Choices<KeepStreams>{{"failed", KeepStreams::kFailed}, {"all", KeepStreams::kAll}});
  m.Optional("rounds", &workload->rounds, kRounds);
  if (const auto warmup = m.Take("warmup")) DecodeWarmup(*warmup, &workload->warmup_requests);
  if (const auto guard = m.Take("guard")) {
    Mapping g(value.context, guard->node, "\"guard\"", guard->path);
    g.Required("consecutive_failures", &workload->guard.consecutive_failures, kRequests);
  }
  const auto arrivals = m.Take("arrivals");
  if (arrivals) {
    Mapping a(value.context, arrivals->node, "\"arrivals\"", arrivals->path);
    if (const auto seed = a.Need("seed")) Read(*seed, &workload->arrivals_seed);
  }
  const Span span{milliseconds(1), hours(24)};
  m.Optional("request_timeout", &workload->request_timeout, span);
  m.Optional("stall_limit", &workload->stall_limit, span);
  if (const auto cases = m.Need("cases")) DecodeCases(*cases, *workload, &workload->cases);
  const auto is_open = [](const Case& c) { return c.open.has_value(); };
  if (arrivals && std::none_of(workload->cases.begin(), workload->cases.end(), is_open)) {
    arrivals->Fail("\"arrivals\" has a meaning only where a case has a \"rate\"");
  }
}

void DecodeOrder(const Value& value, std::vector<BootStep>* order) {
  if (!IsList(value)) return;
  if (value.node.items.empty()) {
    value.Fail("\"order\" is empty: name the arms to boot, or leave the key out for all of them");
  }
  for (const Value& item : Items(value, "arm")) {
    BootStep& step = order->emplace_back();
    step.location = item.node.at;
    if (item.node.kind != Node::Kind::kMapping) {
      Read(item, &step.arm);
      continue;
    }
    Mapping m(value.context, item.node, "a step of \"order\"", item.path);
    m.Required("arm", &step.arm);
    m.Optional("rounds", &step.rounds, kRounds);
    const auto cases = m.Take("cases");
    if (cases && Read(*cases, &step.cases) && step.cases.empty()) {
      cases->Fail("\"cases\" is empty: name cases, or leave the key out for all of them");
    }
  }
}

}  // namespace upgrade_gate::plan
