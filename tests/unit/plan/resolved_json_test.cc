// The bytes that decide whether evidence belongs to a plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "framework/base/json.h"
#include "tests/unit/plan/plan_text.h"

namespace upgrade_gate::plan {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string DigestOf(const std::string& yaml) {
  return WorkloadDigest(MustResolve(yaml));
}

std::string DigestAfter(std::string_view from, std::string_view to) {
  return DigestOf(Edit(kProcessPlan, from, to));
}

TEST(WorkloadDigest, IsOfWriteWorkload) {
  const ResolvedPlan plan = MustResolve(kProcessPlan);
  EXPECT_EQ(WorkloadDigest(plan), base::Sha256Of(WriteWorkload(plan)));
  EXPECT_THAT(WriteWorkload(plan), Not(HasSubstr("\n")));
}

TEST(WorkloadDigest, IsThatOfTheMeaningAndNotOfTheText) {
  const std::string rewritten = R"(# the same plan, written otherwise
gates:
  - provenance: {}
  - throughput:
      max_loss: 3%
      case: short
workload:
  cases:
    - name: short
      shape: chat
      requests: 4
      concurrency: 2
      output_tokens: 16
      input_tokens: 64
    - {requests: 2, name: "long", concurrency: 1, output_tokens: 16, input_tokens: 512}
  rounds: 3   # the default, said aloud
  prompts: {seed: 7, kind: synthetic-tokens}
order: [baseline, candidate]
arms:
  candidate: {executable: {sha256: "sha256:2222222222222222222222222222222222222222222222222222222222222222", path: new}}
  baseline: {like: candidate, executable: {path: old, sha256: 1111111111111111111111111111111111111111111111111111111111111111}}
server:
  command:
    - --profile
    - slow
    - "--fast"
    - --port
    - $PORT
  launcher: process
model: {served_name: m}
name: demo
version: 1
)";
  EXPECT_EQ(DigestOf(rewritten), DigestOf(std::string(kProcessPlan)));
}

TEST(WorkloadDigest, IgnoresWhatOnlyJudges) {
  const std::string same = DigestOf(std::string(kProcessPlan));
  EXPECT_EQ(DigestAfter("max_loss: 3%", "max_loss: 5%"), same);
  EXPECT_EQ(DigestAfter("  - throughput: {case: short, max_loss: 3%}\n", ""), same);
  EXPECT_EQ(DigestAfter("workload:", "boot_noise: 2%\nworkload:"), same);
  EXPECT_EQ(DigestAfter("workload:", "not_covered: [x]\nworkload:"), same);
  EXPECT_EQ(DigestAfter("workload:",
                        "expected_changes: [{fact: a, from: b, to: c, reason: d}]\nworkload:"),
            same);
}

TEST(WorkloadDigest, ChangesWithEverythingThatIsRun) {
  const std::string twos(kTwos);
  const std::pair<std::string, std::string> edits[] = {
      {"name: demo", "name: demo2"},
      {"{served_name: m}", "{served_name: n}"},
      {"{served_name: m}", "{served_name: m, snapshot: /s}"},
      {"{served_name: m}", "{served_name: m, digest: " + twos + "}"},
      {"--fast", "--faster"},
      {"path: new", "path: newer"},
      {twos, std::string(64, '3')},
      {"command:", "env: {A: b}\n  command:"},
      {"command:", "env: {A: {from_env: B}}\n  command:"},
      {"command:", "ready: {timeout: 1s}\n  command:"},
      {"command:", "stop: {timeout: 1s}\n  command:"},
      {"command:", "log_rules: {sets: [vllm]}\n  command:"},
      {"command:", "log_rules: {file: rules.yaml}\n  command:"},
      {"command:", "facts: [{fact: deps, argv: [pip, freeze]}]\n  command:"},
      {"command:", "facts: [{fact: deps, argv: [pip, freeze], compare: false}]\n  command:"},
      {"  candidate:", "  candidate:\n    append: [--x]"},
      {"  candidate:", "  candidate:\n    files: [{path: f, sha256: " + twos + "}]"},
      {"workload:", "  other: {like: candidate, role: attribution}\nworkload:"},
      {"workload:", "order: [candidate, baseline]\nworkload:"},
      {"workload:", "order: [baseline, candidate, baseline]\nworkload:"},
      {"workload:", "order: [baseline, {arm: candidate, rounds: 4}]\nworkload:"},
      {"workload:", "order: [baseline, {arm: candidate, cases: [short]}]\nworkload:"},
      {"seed: 7", "seed: 8"},
      {"seed: 7", "seed: 7, first_id: 2000"},
      {"seed: 7", "seed: 7, id_count: 3000"},
      {"  cases:", "  sampling: {temperature: 0.1}\n  cases:"},
      {"  cases:", "  sampling: {top_p: 0.9}\n  cases:"},
      {"  cases:", "  sampling: {seed: 2}\n  cases:"},
      {"  cases:", "  rounds: 4\n  cases:"},
      {"  cases:", "  warmup: {requests: 2}\n  cases:"},
      {"  cases:", "  guard: {consecutive_failures: 2}\n  cases:"},
      {"  cases:", "  request_timeout: 1s\n  cases:"},
      {"  cases:", "  stall_limit: 1s\n  cases:"},
      {"name: long", "name: longer"},
      {"input_tokens: 512", "input_tokens: 513"},
      {"output_tokens: 16, concurrency: 1", "output_tokens: 17, concurrency: 1"},
      {"concurrency: 1", "concurrency: 2"},
      {"requests: 2", "requests: 3"},
      {"requests: 2", "requests: 2, shape: s"},
  };
  std::map<std::string, std::string> seen = {{DigestOf(std::string(kProcessPlan)), "no edit"}};
  for (const auto& [from, to] : edits) {
    const auto [it, is_new] = seen.emplace(DigestAfter(from, to), to);
    EXPECT_TRUE(is_new) << "the same digest for: " << to << " and " << it->second;
  }
}

TEST(WorkloadDigest, ChangesWithAllOfAnOpenLoop) {
  const std::string closed = "concurrency: 1, requests: 2";
  std::map<std::string, std::string> seen = {{DigestOf(std::string(kProcessPlan)), "closed"}};
  for (const std::string open :
       {"rate: 1/s, arrivals: poisson, requests: 2", "rate: 1/s, arrivals: constant, requests: 2",
        "rate: 2/s, arrivals: poisson, requests: 2", "rate: 1/s, arrivals: poisson, requests: 3",
        "rate: 1/s, arrivals: poisson, requests: 2, ramp: 1s",
        "rate: 1/s, arrivals: poisson, requests: 2, max_in_flight: 7"}) {
    const std::string plan = Edit(kProcessPlan, closed, open);
    for (const std::string& edited :
         {plan, Edit(plan, "  cases:", "  arrivals: {seed: 3}\n  cases:")}) {
      const auto [it, is_new] = seen.emplace(DigestOf(edited), edited);
      EXPECT_TRUE(is_new) << edited << " and " << it->second;
    }
  }
  // Two ways to write one load.
  EXPECT_EQ(DigestOf(Edit(kProcessPlan, closed,
                          "rate: 0.5/s, arrivals: poisson, duration: 9s, ramp: 2s")),
            DigestOf(Edit(kProcessPlan, closed,
                          "rate: 0.5/s, arrivals: poisson, requests: 4, ramp: 2s")));
}

TEST(WriteResolved, HoldsAnOpenLoop) {
  const std::string resolved =
      WriteResolved(MustResolve(Edit(kProcessPlan, "concurrency: 1, requests: 2",
                                     "rate: 0.3/s, arrivals: poisson, duration: 200s")));
  for (const char* line : {"\"rate_per_s\": 0.3", "\"arrivals\": \"poisson\"", "\"ramp_ms\": 0",
                           "\"max_in_flight\": 1000", "\"requests\": 60", "\"arrivals_seed\": 1"}) {
    EXPECT_NE(resolved.find(line), std::string::npos) << line << " in " << resolved;
  }
}

TEST(WorkloadDigest, ChangesWithDockerSettings) {
  std::map<std::string, std::string> seen;
  for (const std::string lines :
       {"gpus: all", "gpus: [0]", "ipc: host", "ipc: private", "pull: never", "pull: missing",
        "mounts: [{source: /a, target: /b}]", "mounts: [{source: /c, target: /b}]",
        "mounts: [{source: /a, target: /c}]",
        "mounts: [{source: /a, target: /b, read_only: false}]"}) {
    const auto [it, is_new] = seen.emplace(DigestOf(Edit(kDockerPlan, "gpus: all", lines)), lines);
    EXPECT_TRUE(is_new) << lines << " and " << it->second;
  }
  EXPECT_FALSE(
      seen.contains(DigestOf(Edit(kDockerPlan, std::string(kTwos), std::string(64, '3')))));
}

TEST(WriteResolved, HoldsTheWorkloadAndWhatJudges) {
  const ResolvedPlan plan = MustResolve(kProcessPlan);
  const std::string text = WriteResolved(plan);
  const auto json = base::ParseJson(text);
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(base::WriteJson(*json), text);
  EXPECT_EQ(base::WriteJsonLine((*json)["workload"]), WriteWorkload(plan));
  EXPECT_EQ((*json)["schema"], 1);
  ASSERT_EQ((*json)["gates"].size(), 2U);
  EXPECT_EQ(
      base::WriteJsonLine((*json)["gates"][0]),
      R"({"id":"throughput.short.max_loss","kind":"throughput","severity":"required",)"
      R"("case":"short","max_loss_percent":3.0,"on_failures":"inconclusive","confidence_percent":95.0})");
  EXPECT_EQ((*json)["boot_noise"]["value_percent"], 1.0);
  EXPECT_TRUE((*json)["expected_changes"].is_array());
  EXPECT_TRUE((*json)["not_covered"].is_array());
}

TEST(WriteResolved, EachKindOfGateSaysItsThreshold) {
  const ResolvedPlan plan =
      MustResolve(Edit(kProcessPlan, "  - throughput: {case: short, max_loss: 3%}", R"(
  - throughput: {case: short, min_gain: 50%}
  - throughput: {shape: chat, min: 900tok/s, severity: advisory}
  - latency: {case: short, metric: ttft, max: 250ms}
  - latency: {case: short, metric: ttft, max_increase: 5%}
  - failures: {kind: empty_output, max_rate: 2%}
  - failures: {kind: any, max_rate: 2%}
  - native: {name: gain, test: Suite.Gain})"));
  const auto json = base::ParseJson(WriteResolved(plan));
  ASSERT_TRUE(json);
  const auto gate = [&](std::size_t i) { return base::WriteJsonLine((*json)["gates"][i]); };
  EXPECT_THAT(gate(0), HasSubstr(R"("min_gain_percent":50.0)"));
  EXPECT_THAT(gate(1),
              HasSubstr(R"("severity":"advisory","shape":"chat","min_tokens_per_s":900.0)"));
  EXPECT_THAT(gate(2), HasSubstr(R"("metric":"ttft","percentile":95,"max_us":250000)"));
  EXPECT_THAT(gate(3), HasSubstr(R"("max_increase_percent":5.0)"));
  EXPECT_THAT(gate(4), HasSubstr(R"("failure_kind":"empty_output","arm":"candidate",)"
                                 R"("max_rate_percent":2.0,"confidence_percent":95.0)"));
  EXPECT_THAT(gate(5), HasSubstr(R"("failure_kind":"any")"));
  EXPECT_THAT(
      gate(6),
      HasSubstr(R"("id":"gain","kind":"native","severity":"required","test":"Suite.Gain")"));
}

TEST(WriteResolved, NeverHoldsAValueOfTheEnvironment) {
  const std::string canary = "canary-4f1d";
  ASSERT_EQ(setenv("UPGRADE_GATE_PLAN_TEST", canary.c_str(), 1), 0);
  const ResolvedPlan plan = MustResolve(Edit(
      kProcessPlan, "command:", "env: {HF_TOKEN: {from_env: UPGRADE_GATE_PLAN_TEST}}\n  command:"));
  const std::string text = WriteResolved(plan);
  unsetenv("UPGRADE_GATE_PLAN_TEST");
  EXPECT_THAT(text, Not(HasSubstr(canary)));
  EXPECT_THAT(WriteWorkload(plan),
              HasSubstr(R"("env":{"HF_TOKEN":{"from_env":"UPGRADE_GATE_PLAN_TEST"}})"));
}

std::string Difference(std::string_view from, std::string_view to,
                       std::string_view base = kProcessPlan) {
  return FirstDifference(WriteWorkload(MustResolve(base)),
                         WriteResolved(MustResolve(Edit(base, from, to))));
}

TEST(FirstDifference, IsEmptyForOneWorkload) {
  EXPECT_EQ(Difference("max_loss: 3%", "max_loss: 4%"), "");
}

TEST(FirstDifference, NamesThePlaceAndBothValues) {
  EXPECT_EQ(Difference(kTwos, std::string(64, '3')),
            "arms.candidate.executable.sha256: 222222222222… here, 333333333333… there");
  EXPECT_EQ(Difference("seed: 7", "seed: 8"), "workload.prompts.seed: 7 here, 8 there");
  EXPECT_EQ(Difference("slow", "quick"),
            "arms.baseline.command[1]: \"slow\" here, \"quick\" there");
  EXPECT_EQ(Difference("  candidate:", "  candidate:\n    append: [--x]"),
            "arms.candidate.command[5]: absent here, \"--x\" there");
  EXPECT_EQ(Difference("requests: 2", "requests: 3"),
            "workload.cases[long].requests: 2 here, 3 there");
  EXPECT_EQ(Difference("workload:", "order: [candidate, baseline]\nworkload:"),
            "order[0].arm: \"baseline\" here, \"candidate\" there");
  EXPECT_EQ(Difference("command:", "env: {A: b}\n  command:"),
            "arms.baseline.env.A: absent here, \"b\" there");
}

TEST(FirstDifference, NamesWholePartsThatAreMissing) {
  const std::string more =
      Edit(kProcessPlan, "workload:", "  other: {like: candidate, role: attribution}\nworkload:");
  EXPECT_EQ(Difference("workload:", "  other: {like: candidate, role: attribution}\nworkload:"),
            "arms.other: absent here, present there");
  EXPECT_EQ(
      FirstDifference(WriteWorkload(MustResolve(more)), WriteResolved(MustResolve(kProcessPlan))),
      "arms.other: present here, absent there");
}

TEST(FirstDifference, ShowsDigestsThatBeginAlikeInFull) {
  const std::string other = std::string(63, '2') + "3";
  EXPECT_EQ(Difference(kTwos, other), "arms.candidate.executable.sha256: \"" + std::string(kTwos) +
                                          "\" here, \"" + other + "\" there");
}

TEST(FirstDifference, SaysThatTheOrderOfCasesDiffers) {
  const std::string here = R"({"cases":[{"name":"a"},{"name":"b"}]})";
  const std::string there = R"({"workload":{"cases":[{"name":"b"},{"name":"a"}]}})";
  EXPECT_EQ(FirstDifference(here, there), "cases: another order here");
  EXPECT_EQ(FirstDifference(here, R"({"workload":{"cases":[{"name":"a"}]}})"),
            "cases[b]: present here, absent there");
  EXPECT_EQ(FirstDifference(R"({"cases":[{"name":"a"}]})", there),
            "cases[b]: absent here, present there");
}

TEST(FirstDifference, SurvivesBrokenAndHostileJson) {
  const std::string here = WriteWorkload(MustResolve(kProcessPlan));
  EXPECT_THAT(FirstDifference(here, "{"), testing::StartsWith("the stored plan cannot be read: "));
  EXPECT_EQ(FirstDifference(here, "{}"), "the stored plan cannot be read: \"workload\" is missing");
  EXPECT_THAT(FirstDifference("x", "{}"),
              testing::StartsWith("the workload of this plan cannot be read: "));
  EXPECT_EQ(FirstDifference(here, R"({"workload":null})"),
            "the workload: present here, null there");
  EXPECT_EQ(FirstDifference(R"({"a":1})", R"({"workload":{"a":"\u001b[2J"}})"),
            R"(a: 1 here, "\u001b[2J" there)");
}

}  // namespace
}  // namespace upgrade_gate::plan
