// `gates:`.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "framework/base/text.h"
#include "framework/plan/decode.h"

namespace upgrade_gate::plan {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;

constexpr Real kGain{0, 10'000};
constexpr Real kLoss{0, 100, Bound::kIncluded, Bound::kExcluded};
constexpr Real kConfidence{50, 100, Bound::kExcluded, Bound::kExcluded};

// One of `keys` must be there, and no other.
void ExactlyOne(Mapping& m, std::string_view what, const std::vector<std::string>& keys) {
  if (!m.valid()) return;
  std::vector<std::string> found;
  for (const std::string& key : keys) {
    if (m.Has(key)) found.push_back(key);
  }
  if (found.empty()) {
    m.Fail(fmt::format("{} needs {}", what, base::JoinList(keys, "or")));
  } else if (found.size() > 1) {
    m.Fail(fmt::format("{} has {}: write one gate for each", what, base::JoinList(found)));
  }
}

void DecodeSelection(Mapping& m, Selection* selection) {
  m.Optional("case", &selection->case_name);
  m.Optional("shape", &selection->shape);
}

ThroughputGate DecodeThroughput(Mapping& m, Selection* selection) {
  ThroughputGate gate;
  DecodeSelection(m, selection);
  ExactlyOne(m, "a throughput gate", {"case", "shape"});
  m.Optional("min_gain", &gate.min_gain, kGain);
  m.Optional("max_loss", &gate.max_loss, kLoss);
  m.Optional("min", &gate.min, Real{0, 1e9, Bound::kExcluded});
  m.Optional("confidence", &gate.confidence, kConfidence);
  ExactlyOne(m, "a throughput gate", {"min_gain", "max_loss", "min"});
  if (m.Has("max_loss")) {
    m.Optional("on_failures", &gate.on_failures,
               Choices<OnFailures>{{"inconclusive", OnFailures::kInconclusive},
                                   {"advisory", OnFailures::kAdvisory}});
  } else {
    m.Refuse("on_failures", "has a meaning for max_loss only");
  }
  return gate;
}

LatencyGate DecodeLatency(Mapping& m, Selection* selection) {
  LatencyGate gate;
  DecodeSelection(m, selection);
  ExactlyOne(m, "a latency gate", {"case", "shape"});
  Choices<evidence::Metric> metrics;
  for (const auto metric :
       {evidence::Metric::kTtft, evidence::Metric::kTpot, evidence::Metric::kE2e}) {
    metrics.push_back({evidence::Name(metric), metric});
  }
  m.Required("metric", &gate.metric, metrics);
  int percentile = gate.percentile;
  if (m.Optional("percentile", &percentile, Whole{1, 99})) {
    if (std::find(std::begin(evidence::kPercentiles), std::end(evidence::kPercentiles),
                  percentile) == std::end(evidence::kPercentiles)) {
      std::vector<std::string> known;
      for (const int p : evidence::kPercentiles) known.push_back(std::to_string(p));
      m.Take("percentile")
          ->Fail(fmt::format("\"percentile\" must be {}, not {}", base::JoinList(known, "or"),
                             percentile));
    }
    gate.percentile = percentile;
  }
  m.Optional("max_increase", &gate.max_increase, kGain);
  m.Optional("max", &gate.max, Span{microseconds(1), hours(24)});
  m.Optional("confidence", &gate.confidence, kConfidence);
  ExactlyOne(m, "a latency gate", {"max_increase", "max"});
  return gate;
}

FailuresGate DecodeFailures(Mapping& m, Selection* selection) {
  FailuresGate gate;
  DecodeSelection(m, selection);
  if (m.Has("case") && m.Has("shape")) {
    m.Fail("a failures gate has case and shape: write one gate for each");
  }
  Choices<std::optional<evidence::FailureKind>> kinds = {{"any", std::nullopt}};
  for (const auto kind : evidence::kAllFailureKinds) kinds.push_back({evidence::Name(kind), kind});
  m.Required("kind", &gate.kind, kinds);
  m.Optional("arm", &gate.arm);
  m.Required("max_rate", &gate.max_rate, kLoss);
  m.Optional("confidence", &gate.confidence, kConfidence);
  return gate;
}

// "Suite.Name" of C++ identifiers, with the "/" of parameterised tests. Nothing
// in it has a meaning for a filter of GoogleTest.
bool IsTestName(std::string_view text) {
  constexpr std::string_view kPart =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/";
  const std::size_t dot = text.find('.');
  if (dot == 0 || dot == std::string_view::npos || dot + 1 == text.size()) return false;
  return text.substr(0, dot).find_first_not_of(kPart) == std::string_view::npos &&
         text.substr(dot + 1).find_first_not_of(kPart) == std::string_view::npos;
}

NativeGate DecodeNative(Mapping& m, Gate* of) {
  NativeGate gate;
  if (!m.Optional("test", &gate.test)) {
    if (!m.Has("name")) m.Need("name", "the full name of a test, Suite.Name");
    gate.test = of->id;
  } else if (of->id.empty() && base::IsPlainName(gate.test)) {
    of->id = gate.test;
  } else if (of->id.empty()) {
    m.Fail(fmt::format("a native gate whose test is {} needs a name", Quoted(gate.test)));
  }
  if (!gate.test.empty() && !IsTestName(gate.test)) {
    m.Fail(
        fmt::format("{} is not the full name of a test: write Suite.Name, or add test: "
                    "Suite.Name beside the name",
                    Quoted(gate.test)));
  }
  return gate;
}

void DecodeRule(const Value& rule, GateKind kind, Gate* gate) {
  Mapping m(rule.context, rule.node, fmt::format("the {} gate", Name(kind)), rule.path);
  m.Optional("name", &gate->id, PlainName{});
  m.Optional("severity", &gate->severity,
             Choices<Severity>{{Name(Severity::kRequired), Severity::kRequired},
                               {Name(Severity::kAdvisory), Severity::kAdvisory}});
  switch (kind) {
    case GateKind::kThroughput:
      gate->rule = DecodeThroughput(m, &gate->selection);
      break;
    case GateKind::kLatency:
      gate->rule = DecodeLatency(m, &gate->selection);
      break;
    case GateKind::kFailures:
      gate->rule = DecodeFailures(m, &gate->selection);
      break;
    case GateKind::kProvenance:
      gate->rule = ProvenanceGate{};
      break;
    case GateKind::kNative:
      gate->rule = DecodeNative(m, gate);
      break;
  }
}

}  // namespace

void DecodeGates(const Value& value, std::vector<Gate>* gates) {
  constexpr GateKind kKinds[] = {GateKind::kThroughput, GateKind::kLatency, GateKind::kFailures,
                                 GateKind::kProvenance, GateKind::kNative};
  std::vector<std::string> names;
  for (const GateKind kind : kKinds) names.emplace_back(Name(kind));
  if (!IsList(value)) return;
  for (const Value& item : Items(value, "gate")) {
    if (item.node.kind != Node::Kind::kMapping || item.node.entries.size() != 1) {
      item.Fail("a gate is a mapping of one key, its kind: \"- provenance: {}\"");
      continue;
    }
    const Node::Entry& entry = item.node.entries[0];
    const auto kind = std::find(names.begin(), names.end(), entry.key);
    if (kind == names.end()) {
      const std::string meant = DidYouMean(entry.key, names);
      item.context.errors.Add(
          entry.at, fmt::format("unknown kind of gate {}{}", Quoted(entry.key),
                                meant.empty() ? ": write " + base::JoinList(names, "or") : meant));
      continue;
    }
    Gate gate;
    gate.location = entry.at;
    const std::size_t errors_before = item.context.errors.size();
    // By its place in `gates`, which a gate with errors does not get.
    const std::string path = fmt::format("{}[{}]", value.path, gates->size());
    DecodeRule({item.context, entry.key, path, *entry.value}, kKinds[kind - names.begin()], &gate);
    if (item.context.errors.size() == errors_before) gates->push_back(std::move(gate));
  }
}

}  // namespace upgrade_gate::plan
