// `workload:` and `order:`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "framework/plan/decode.h"

namespace upgrade_gate::plan {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr Whole kRounds{1, 1000};
constexpr Whole kRequests{1, 1'000'000};

void DecodePrompts(const Value& value, Prompts* prompts) {
  Mapping m(value.context, value.node, "\"prompts\"", value.path);
  m.Required("kind", &prompts->kind,
             Choices<PromptKind>{{"synthetic-tokens", PromptKind::kSyntheticTokens}});
  if (const auto seed = m.Need("seed", "both arms must get the same prompts, in every run")) {
    Read(*seed, &prompts->seed);
  }
  m.Optional("first_id", &prompts->first_id, Whole{0, 10'000'000});
  m.Optional("id_count", &prompts->id_count, Whole{2, 10'000'000});
}

void DecodeSampling(const Value& value, Sampling* sampling) {
  Mapping m(value.context, value.node, "\"sampling\"", value.path);
  m.Optional("temperature", &sampling->temperature, Real{0, 2});
  m.Optional("top_p", &sampling->top_p, Real{0, 1, Bound::kExcluded});
  m.Optional("seed", &sampling->seed, Whole{0, INT64_MAX});
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
  m.Required("input_tokens", &c->input_tokens, Whole{1, 10'000'000});
  m.Required("output_tokens", &c->output_tokens, Whole{1, 1'000'000});
  m.Optional("shape", &c->shape, PlainName{});
  if (m.Has("rate")) {
    DecodeOpenLoop(m, c);
  } else {
    DecodeClosedLoop(m, c);
  }
}

void DecodeCases(const Value& value, std::vector<Case>* cases) {
  if (!IsList(value)) return;
  if (value.node.items.empty())
    value.Fail("\"cases\" is empty: a workload needs at least one case");
  for (const Value& item : Items(value, "case")) {
    Case& c = cases->emplace_back();
    c.location = item.node.at;
    DecodeCase(item, &c);
  }
}

}  // namespace

void DecodeWorkload(const Value& value, Workload* workload) {
  Mapping m(value.context, value.node, "the workload", value.path);
  m.Optional("api", &workload->api, Choices<Api>{{"completions", Api::kCompletions}});
  if (const auto prompts = m.Need("prompts")) DecodePrompts(*prompts, &workload->prompts);
  if (const auto sampling = m.Take("sampling")) DecodeSampling(*sampling, &workload->sampling);
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
  if (const auto cases = m.Need("cases")) DecodeCases(*cases, &workload->cases);
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
