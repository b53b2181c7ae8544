#include "framework/plan/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace upgrade_gate::plan {
namespace {

void DecodeModel(const Value& value, Model* model) {
  Mapping m(value.context, value.node, "the model", value.path);
  if (const auto name = m.Need("served_name", "the name that requests ask for")) {
    Read(*name, &model->served_name);
  }
  m.Optional("snapshot", &model->snapshot);
  m.Optional("digest", &model->digest, Digest{});
}

void DecodeNoiseValue(const Value& value, BootNoise* noise) {
  constexpr Real kRange{0, 100};
  if (Read(value, &noise->value, kRange) && noise->value.value == 0 && noise->reason.empty()) {
    value.Fail(
        "0% says that two boots of one server never differ, which makes every verdict look surer "
        "than it is: say why: boot_noise: {value: 0%, reason: \"…\"}");
  }
}

void DecodeBootNoise(const Value& value, BootNoise* noise) {
  if (value.node.kind != Node::Kind::kMapping) return DecodeNoiseValue(value, noise);
  Mapping m(value.context, value.node, "\"boot_noise\"", value.path);
  m.Optional("reason", &noise->reason);
  if (const auto inner = m.Need("value")) DecodeNoiseValue(*inner, noise);
}

void DecodeExpectedChanges(const Value& value, std::vector<ExpectedChange>* changes) {
  if (!IsList(value)) return;
  std::map<std::string, Location> facts;
  for (const Value& item : Items(value, "expected change")) {
    ExpectedChange change;
    Mapping m(value.context, item.node, "an expected change", item.path);
    m.Required("fact", &change.fact);
    m.Required("from", &change.from);
    m.Required("to", &change.to);
    if (const auto reason = m.Need("reason", "the report prints it as a condition")) {
      Read(*reason, &change.reason);
    }
    const auto [first, is_new] = facts.emplace(change.fact, item.node.at);
    if (!is_new && !change.fact.empty()) {
      item.Fail(fmt::format("the fact {} is expected to change twice, first at {}:{}",
                            Quoted(change.fact), first->second.line, first->second.column));
    }
    changes->push_back(std::move(change));
  }
}

// False for a plan of another version, whose other keys mean nothing here.
bool CheckVersion(Mapping& top) {
  const auto version = top.Need("version", "write version: 1");
  if (!version) return true;
  std::int64_t number = 0;
  if (!Read(*version, &number, Whole{0, INT64_MAX})) return true;
  if (number == 1) return true;
  version->Fail(fmt::format("this is a plan of version {}; only version 1 can be read", number));
  return false;
}

}  // namespace

Decoded DecodePlan(const Node& root, Errors& errors) {
  Decoded result;
  Plan& plan = result.plan;
  Incomplete& incomplete = result.incomplete;
  Context context{errors, plan.locations};
  Mapping top(context, root, "the plan", "");
  if (!top.valid() || !CheckVersion(top)) {
    top.Abandon();
    incomplete = Incomplete::All();
    return result;
  }
  top.Required("name", &plan.name, PlainName{});
  if (const auto model = top.Need("model")) DecodeModel(*model, &plan.model);

  // True if the section is missing, or decoding it added errors.
  const auto section = [&](std::string_view key, bool required, std::string_view hint,
                           const auto& decode) {
    const std::size_t before = errors.size();
    const auto value = required ? top.Need(key, hint) : top.Take(key);
    if (value) decode(*value);
    return errors.size() != before;
  };
  std::optional<LauncherKind> launcher;
  const bool server = section("server", true, "say how the arms are started",
                              [&](const Value& v) { launcher = DecodeServer(v, &plan.server); });
  const bool arms = section("arms", true, "a plan needs at least the arm candidate",
                            [&](const Value& v) { DecodeArms(v, launcher, &plan.arms); });
  incomplete.commands = server || arms;
  incomplete.arm_names = plan.arms.empty();
  incomplete.order =
      section("order", false, "", [&](const Value& v) { DecodeOrder(v, &plan.order); });
  section("workload", true, "say what load the arms are given",
          [&](const Value& v) { DecodeWorkload(v, &plan.workload); });
  incomplete.case_names = plan.workload.cases.empty() ||
                          std::any_of(plan.workload.cases.begin(), plan.workload.cases.end(),
                                      [](const Case& c) { return c.name.empty(); });
  incomplete.gates = section("gates", true, "a plan without gates can never say no",
                             [&](const Value& v) { DecodeGates(v, &plan.gates); });

  if (const auto noise = top.Take("boot_noise")) DecodeBootNoise(*noise, &plan.boot_noise);
  top.Optional("deadline", &plan.deadline,
               Span{std::chrono::seconds(10), std::chrono::hours(24 * 30)});
  if (const auto changes = top.Take("expected_changes")) {
    DecodeExpectedChanges(*changes, &plan.expected_changes);
  }
  top.Optional("not_covered", &plan.not_covered);
  return result;
}

}  // namespace upgrade_gate::plan
