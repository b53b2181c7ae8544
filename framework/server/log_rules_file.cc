// The grammar of a rules file.
#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <utility>

#include "framework/base/text.h"
#include "framework/plan/decoder.h"
#include "framework/plan/document.h"
#include "framework/plan/errors.h"
#include "framework/server/log_rules.h"
#include "framework/server/log_rules_re2.h"

namespace upgrade_gate::server {
namespace {

using plan::Items;
using plan::Mapping;
using plan::Value;

const plan::Choices<std::string>& FaultKinds() {
  static const plan::Choices<std::string> kinds = {
      {"engine", "engine"}, {"cuda", "cuda"}, {"hip", "hip"},
      {"oom", "oom"},       {"nccl", "nccl"}, {"rccl", "rccl"},
      {"worker", "worker"}, {"xid", "xid"},   {"other", "other"}};
  return kinds;
}

// Checks one pattern; `groups` comes back.
bool ReadPattern(const Value& value, std::string* out, int* groups = nullptr) {
  std::string text;
  if (!plan::Read(value, &text)) return false;
  if (text.size() > kMaxPatternBytes) {
    value.Fail(fmt::format("a pattern may have {} bytes", kMaxPatternBytes));
    return false;
  }
  const re2::RE2 pattern(text, PatternOptions());
  if (!pattern.ok()) {
    value.Fail(fmt::format("{} is no pattern that RE2 can read: {}", plan::Quoted(text),
                           base::Visible(base::Shorten(pattern.error(), 120))));
    return false;
  }
  if (re2::RE2::PartialMatch("", pattern)) {
    value.Fail(fmt::format("{} matches every line, even an empty one", plan::Quoted(text)));
    return false;
  }
  if (groups != nullptr) *groups = pattern.NumberOfCapturingGroups();
  *out = std::move(text);
  return true;
}

// One pattern, or a list of them; returns the fewest groups that one of them has.
int ReadPatterns(const Value& value, std::vector<std::string>* out) {
  int fewest = INT32_MAX;
  const auto read = [&](const Value& item) {
    int groups = 0;
    std::string pattern;
    if (!ReadPattern(item, &pattern, &groups)) return;
    fewest = std::min(fewest, groups);
    out->push_back(std::move(pattern));
  };
  if (value.node.kind != plan::Node::Kind::kSequence) {
    read(value);
    return fewest;
  }
  if (value.node.items.empty()) value.Fail("the list is empty: nothing would ever match");
  for (const Value& item : Items(value, value.key)) read(item);
  return fewest;
}

void DecodeValue(Mapping& m, int groups, FactRule* rule) {
  const auto value = m.Take("value");
  if (!value) {
    if (groups == 0) {
      m.Fail("the pattern has no group to take the value from: write (…) in it, or give \"value\"");
    }
    return;
  }
  std::string text;
  if (!plan::Read(*value, &text)) return;
  const int needed = re2::RE2::MaxSubmatch(text);
  if (needed > groups) {
    value->Fail(fmt::format("{} uses group {}, but a pattern of the fact has {}",
                            plan::Quoted(text), needed, groups));
    return;
  }
  rule->value = std::move(text);
}

void DecodeFact(const Value& item, std::vector<FactRule>* facts) {
  FactRule rule;
  Mapping m(item.context, item.node, "a fact", item.path);
  m.Required("fact", &rule.fact, plan::PlainName{});
  if (m.Has("endpoint")) {
    m.Refuse("log", "stands beside \"endpoint\": a fact of both has two entries");
    m.Refuse("value", "is for facts of the log");
    if (m.Required("endpoint", &rule.endpoint) && rule.endpoint.front() != '/') {
      m.Take("endpoint")->Fail("must be a path like /version");
    }
    if (m.Required("member", &rule.member) && rule.member.front() != '/') {
      m.Take("member")->Fail("must be a JSON pointer like /version");
    }
    if (const auto absent = m.Take("absent")) {
      plan::Read(*absent, &rule.absent_member, plan::Choices<bool>{{"no_member", true}});
    }
  } else if (const auto log = m.Need("log", "a fact is of a line of the log or of an endpoint")) {
    const int groups = ReadPatterns(*log, &rule.log);
    if (!rule.log.empty()) DecodeValue(m, groups, &rule);
    if (const auto absent = m.Take("absent")) ReadPatterns(*absent, &rule.absent_log);
  }
  m.Optional("compare", &rule.compared);
  if (const auto names = m.Take("names")) {
    for (const Value& name : plan::Entries(*names)) plan::Read(name, &rule.names[name.key]);
  }
  facts->push_back(std::move(rule));
}

void DecodeFault(const Value& item, bool stall, std::vector<FaultRule>* faults) {
  FaultRule rule;
  Mapping m(item.context, item.node, stall ? "a stall" : "a fault", item.path);
  if (stall) {
    rule.kind = "stall";
  } else {
    m.Required("class", &rule.kind, FaultKinds());
  }
  if (const auto log = m.Need("log")) ReadPatterns(*log, &rule.log);
  if (const auto but = m.Take("but")) ReadPatterns(*but, &rule.but);
  if (const auto means = m.Need("means", "it is said where the line was found")) {
    plan::Read(*means, &rule.means);
  }
  faults->push_back(std::move(rule));
}

void DecodeRules(const plan::Node& root, plan::Errors& errors, RuleSet* set) {
  std::map<std::string, plan::Location> locations;
  plan::Context context{errors, locations};
  Mapping top(context, root, "a rules file", "");
  if (!top.valid()) return top.Abandon();
  std::int64_t version = 0;
  if (top.Required("version", &version, plan::Whole{1, INT64_MAX}) && version != 1) {
    top.Take("version")->Fail(
        fmt::format("these are rules of version {}; only version 1 can be read", version));
    return top.Abandon();
  }
  top.Optional("uses", &set->uses);
  if (const auto lines = top.Take("recognise")) ReadPatterns(*lines, &set->recognise);
  if (const auto lines = top.Take("ignore")) ReadPatterns(*lines, &set->ignore);
  if (const auto prefix = top.Take("prefix")) ReadPattern(*prefix, &set->prefix);
  if (const auto ready = top.Take("ready")) ReadPattern(*ready, &set->ready);
  if (const auto facts = top.Take("facts"); facts && plan::IsList(*facts)) {
    for (const Value& item : Items(*facts, "fact")) DecodeFact(item, &set->facts);
  }
  if (const auto faults = top.Take("faults"); faults && plan::IsList(*faults)) {
    for (const Value& item : Items(*faults, "fault")) DecodeFault(item, false, &set->faults);
  }
  if (const auto stalls = top.Take("stalls"); stalls && plan::IsList(*stalls)) {
    for (const Value& item : Items(*stalls, "stall")) DecodeFault(item, true, &set->stalls);
  }
}

}  // namespace

re2::RE2::Options PatternOptions() {
  // Latin-1: a log may hold any bytes, and each must be able to match ".".
  re2::RE2::Options options(re2::RE2::Latin1);
  options.set_log_errors(false);
  options.set_never_nl(false);
  return options;
}

base::Result<RuleSet> ParseRules(std::string_view yaml, const std::string& file) {
  plan::Errors errors(file);
  RuleSet set;
  set.name = file;
  set.sha256 = base::Sha256Of(yaml);
  if (const auto document = plan::ReadDocument(yaml, errors)) {
    DecodeRules(*document->root, errors, &set);
  }
  if (!errors.empty()) return tl::unexpected(errors.ToError());
  return set;
}

}  // namespace upgrade_gate::server
