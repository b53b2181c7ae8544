// `server: log_rules:` and `server: facts:`. The rules themselves are read where
// they are used: framework/server/log_rules.h
#include <fmt/format.h>

#include <set>
#include <utility>

#include "framework/plan/decode.h"

namespace upgrade_gate::plan {
namespace {

constexpr std::size_t kMostProbes = 32;

}  // namespace

void DecodeLogRules(const Value& value, LogRulesSettings* rules) {
  Mapping m(value.context, value.node, "\"log_rules\"", value.path);
  if (const auto sets = m.Take("sets"); sets && Read(*sets, &rules->sets)) {
    std::set<std::string> seen;
    for (const Value& item : Items(*sets, "set")) {
      if (!seen.insert(item.node.text).second) {
        item.Fail(fmt::format("the set {} is there twice", Quoted(item.node.text)));
      }
    }
  }
  m.Optional("file", &rules->file);
}

void DecodeFactProbes(const Value& value, std::vector<FactProbe>* probes) {
  if (!IsList(value)) return;
  std::set<std::string> seen;
  for (const Value& item : Items(value, "fact")) {
    FactProbe probe;
    Mapping m(value.context, item.node, "a fact", item.path);
    m.Required("fact", &probe.fact, PlainName{});
    if (const auto argv = m.Need("argv", "the command that prints it, as a list");
        argv && Read(*argv, &probe.argv, Text::kMayBeEmpty)) {
      if (probe.argv.empty() || probe.argv[0].empty()) argv->Fail("names no program");
      RefuseSecrets(*argv, probe.argv);
    }
    m.Optional("compare", &probe.compared);
    if (!probe.fact.empty() && !seen.insert(probe.fact).second) {
      item.Fail(fmt::format("the fact {} is there twice", Quoted(probe.fact)));
    }
    probes->push_back(std::move(probe));
  }
  if (probes->size() > kMostProbes) {
    value.Fail(
        fmt::format("{} facts; at most {} commands are run a boot", probes->size(), kMostProbes));
  }
}

}  // namespace upgrade_gate::plan
