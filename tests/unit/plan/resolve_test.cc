// Merging of arms, the order, ids, and what ResolvedPlan answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/plan/plan_text.h"

namespace upgrade_gate::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Argv = std::vector<std::string>;

// The candidate's command after `overlay`, from the server's `command`.
Argv Merged(const std::string& command, const std::string& overlay) {
  const std::string plan = Edit(
      Edit(kProcessPlan, "[--profile, slow, --fast, --port, $PORT]", command),
      "sha256: " + std::string(kTwos) + "}", "sha256: " + std::string(kTwos) + "}\n    " + overlay);
  const ResolvedPlan resolved = MustResolve(plan);
  const Arm* arm = resolved.FindArm("candidate");
  return arm == nullptr ? Argv{} : arm->command;
}

TEST(Merge, RemoveTakesTheOptionAndItsValue) {
  EXPECT_THAT(Merged("[serve, --a, 1, --b, $PORT]", "remove: [--a]"),
              ElementsAre("serve", "--b", "$PORT"));
  EXPECT_THAT(Merged("[--a, --b, $PORT]", "remove: [--a]"), ElementsAre("--b", "$PORT"));
  EXPECT_THAT(Merged("[--a=1, x, $PORT]", "remove: [--a]"), ElementsAre("x", "$PORT"));
  EXPECT_THAT(Merged("[$PORT, --a]", "remove: [--a]"), ElementsAre("$PORT"));
  EXPECT_THAT(Merged("[--port, $PORT, --a, -1]", "remove: [--a]"), ElementsAre("--port", "$PORT"));
}

TEST(Merge, RemoveTakesEveryOccurrence) {
  EXPECT_THAT(Merged("[--a, 1, --b, --a=2, --a, $PORT, --p=$PORT]", "remove: [--a]"),
              ElementsAre("--b", "--p=$PORT"));
}

TEST(Merge, RemoveLeavesLongerNamesAlone) {
  EXPECT_THAT(Merged("[--a, 1, --ab, 2, --a-b=3, $PORT]", "remove: [--a]"),
              ElementsAre("--ab", "2", "--a-b=3", "$PORT"));
}

TEST(Merge, ReplaceKeepsPlaceAndForm) {
  EXPECT_THAT(Merged("[--a, 1, --b=2, $PORT]", "replace: {--a: x, --b: y}"),
              ElementsAre("--a", "x", "--b=y", "$PORT"));
  EXPECT_THAT(Merged("[--a, \"\", $PORT]", "replace: {--a: \"\"}"),
              ElementsAre("--a", "", "$PORT"));
}

TEST(Merge, RemoveThenReplaceThenAppend) {
  EXPECT_THAT(Merged("[--a, 1, --b, 2, --p=$PORT]",
                     "append: [--a, 3, --b, 4]\n    replace: {--b: x}\n    remove: [--a]"),
              ElementsAre("--b", "x", "--p=$PORT", "--a", "3", "--b", "4"));
}

TEST(Merge, EachArmStartsFromTheServersCommand) {
  const ResolvedPlan plan =
      MustResolve(Edit(kProcessPlan, "  candidate:", "  candidate:\n    append: [--new]"));
  EXPECT_THAT(plan.FindArm("baseline")->command,
              ElementsAre("--profile", "slow", "--fast", "--port", "$PORT"));
  EXPECT_THAT(plan.FindArm("candidate")->command,
              ElementsAre("--profile", "slow", "--fast", "--port", "$PORT", "--new"));
}

constexpr std::string_view kLike =
    R"(  third: {like: second, role: attribution, append: [--three], env: {B: three}}
  second: {like: candidate, role: attribution, remove: [--fast], env: {B: two}, files: [{path: g, sha256: 2222222222222222222222222222222222222222222222222222222222222222}]}
workload:)";

TEST(Merge, LikeInheritsTheMergedResultInAnyOrderOfTheFile) {
  std::string text = Edit(kProcessPlan, "workload:", kLike);
  text = Edit(text, "  candidate:",
              "  candidate:\n    append: [--one]\n    env: {A: one, B: one}\n    files: [{path: f, "
              "sha256: 1111111111111111111111111111111111111111111111111111111111111111}]");
  text = Edit(text, "  command:", "  env: {A: zero, Z: zero}\n  command:");
  const ResolvedPlan plan = MustResolve(text);
  const Arm* third = plan.FindArm("third");
  ASSERT_NE(third, nullptr);
  EXPECT_THAT(third->command,
              ElementsAre("--profile", "slow", "--port", "$PORT", "--one", "--three"));
  EXPECT_EQ(third->env.at("A").literal, "one");
  EXPECT_EQ(third->env.at("B").literal, "three");
  EXPECT_EQ(third->env.at("Z").literal, "zero");
  EXPECT_EQ(third->executable->path, "new");
  ASSERT_EQ(third->files.size(), 1U);
  EXPECT_EQ(third->files[0].path, "g");
  EXPECT_EQ(third->role, ArmRole::kAttribution);
  EXPECT_EQ(plan.FindArm("candidate")->files.at(0).path, "f");
  EXPECT_EQ(plan.FindArm("baseline")->env.at("A").literal, "zero");
  EXPECT_THAT(plan.FindArm("baseline")->files, IsEmpty());
}

TEST(Merge, ALiteralReplacesAnInheritedName) {
  std::string text = Edit(kProcessPlan, "  command:", "  env: {A: {from_env: X}}\n  command:");
  text = Edit(text, "  candidate:", "  candidate:\n    env: {A: literal}");
  const ResolvedPlan plan = MustResolve(text);
  EXPECT_EQ(plan.candidate()->env.at("A").literal, "literal");
  EXPECT_EQ(plan.candidate()->env.at("A").from_environment, std::nullopt);
  EXPECT_EQ(plan.baseline()->env.at("A").from_environment, "X");
}

TEST(Merge, CommandAndEnvAreInTheArmsOnly) {
  const ResolvedPlan plan =
      MustResolve(Edit(kProcessPlan, "  command:", "  env: {A: b}\n  command:"));
  EXPECT_THAT(plan.server.command, IsEmpty());
  EXPECT_THAT(plan.server.env, IsEmpty());
}

TEST(Roles, AreByNameOrDeclared) {
  const ResolvedPlan plan = MustResolve(
      Edit(kProcessPlan, "workload:", "  third: {like: candidate, role: attribution}\nworkload:"));
  EXPECT_EQ(plan.baseline()->name, "baseline");
  EXPECT_EQ(plan.candidate()->name, "candidate");
  EXPECT_EQ(plan.FindArm("third")->role, ArmRole::kAttribution);
  std::string text = Edit(kProcessPlan, "  candidate:", "  v0.33:\n    role: candidate");
  text = Edit(text, "  baseline:", "  v0.32:\n    role: baseline");
  text = Edit(text, "provenance: {}", "failures: {kind: any, max_rate: 1%}");
  const ResolvedPlan named = MustResolve(text);
  EXPECT_EQ(named.baseline()->name, "v0.32");
  EXPECT_EQ(named.candidate()->name, "v0.33");
  EXPECT_EQ(std::get<FailuresGate>(named.gates[1].rule).arm, "v0.33");
}

std::vector<std::string> Steps(const ResolvedPlan& plan) {
  std::vector<std::string> steps;
  for (const BootStep& step : plan.order) {
    std::string text = step.arm + " x" + std::to_string(step.rounds);
    for (const std::string& name : step.cases) text += " " + name;
    steps.push_back(text);
  }
  return steps;
}

TEST(Order, DefaultsToBaselineCandidateAndTheOthers) {
  const std::string text =
      Edit(Edit(kProcessPlan, "arms:\n",
                "arms:\n  z: {like: candidate, role: attribution}\n  a: {like: z, role: "
                "attribution}\n"),
           "  cases:", "  rounds: 2\n  cases:");
  EXPECT_THAT(Steps(MustResolve(text)),
              ElementsAre("baseline x2 short long", "candidate x2 short long", "z x2 short long",
                          "a x2 short long"));
}

TEST(Order, IsAsWrittenWithDefaultsFilledIn) {
  const std::string text = Edit(
      kProcessPlan, "workload:",
      "order: [candidate, {arm: baseline, cases: [long, short], rounds: 1}, baseline]\nworkload:");
  EXPECT_THAT(
      Steps(MustResolve(text)),
      ElementsAre("candidate x3 short long", "baseline x1 long short", "baseline x3 short long"));
}

TEST(Ids, AreDerivedOrNamed) {
  const ResolvedPlan plan = MustResolve(
      Edit(kProcessPlan, "  - throughput: {case: short, max_loss: 3%}\n  - provenance: {}", R"(
  - throughput: {case: short, min_gain: 1%}
  - throughput: {shape: chat, max_loss: 1%}
  - throughput: {case: long, min: 1tok/s}
  - latency: {case: short, metric: ttft, max_increase: 1%}
  - latency: {shape: chat, metric: tpot, percentile: 50, max: 1s}
  - failures: {kind: empty_output, max_rate: 1%}
  - failures: {kind: any, arm: baseline, max_rate: 1%}
  - failures: {kind: any, arm: baseline, max_rate: 1%, case: long}
  - failures: {kind: any, arm: candidate, max_rate: 1%, shape: chat}
  - throughput: {name: my-gate, case: long, min: 1tok/s, severity: advisory}
  - provenance: {})"));
  std::vector<std::string> ids;
  for (const Gate& gate : plan.gates) ids.push_back(gate.id);
  EXPECT_THAT(ids, ElementsAre("throughput.short.min_gain", "throughput.chat.max_loss",
                               "throughput.long.min", "latency.short.ttft.p95",
                               "latency.chat.tpot.p50.max", "failures.empty_output.candidate",
                               "failures.any.baseline", "failures.any.baseline.long",
                               "failures.any.candidate.chat", "my-gate", "provenance"));
  EXPECT_EQ(plan.FindGate("my-gate")->severity, Severity::kAdvisory);
  EXPECT_EQ(plan.FindGate("my"), nullptr);
}

TEST(Select, ByCaseByShapeOrAll) {
  const ResolvedPlan plan = MustResolve(kProcessPlan);
  const auto names = [&](const Selection& selection) {
    std::vector<std::string> out;
    for (const Case* c : plan.Select(selection)) out.push_back(c->name);
    return out;
  };
  EXPECT_THAT(names({}), ElementsAre("short", "long"));
  EXPECT_THAT(names({"long", std::nullopt}), ElementsAre("long"));
  EXPECT_THAT(names({std::nullopt, "chat"}), ElementsAre("short"));
  EXPECT_THAT(names({std::nullopt, "other"}), IsEmpty());
  EXPECT_EQ(plan.FindCase("long")->input_tokens, 512);
  EXPECT_EQ(plan.FindCase("x"), nullptr);
  EXPECT_EQ(plan.FindArm("x"), nullptr);
}

TEST(Select, APlanWithoutABaselineHasNone) {
  const ResolvedPlan plan;
  EXPECT_EQ(plan.baseline(), nullptr);
  EXPECT_EQ(plan.candidate(), nullptr);
}

}  // namespace
}  // namespace upgrade_gate::plan
