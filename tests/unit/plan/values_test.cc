// Good values, and what becomes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/plan/plan_text.h"

namespace upgrade_gate::plan {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::ElementsAre;

ServerSettings Server(const std::string& lines) {
  const auto plan = ParsePlan(Edit(kProcessPlan, "command:", lines + "\n  command:"), "gate.yaml");
  if (!plan) ADD_FAILURE() << plan.error().message;
  return plan ? plan->server : ServerSettings{};
}

TEST(Values, DurationsCarryTheirUnit) {
  EXPECT_EQ(Server("ready: {timeout: 250ms}").ready_timeout, milliseconds(250));
  EXPECT_EQ(Server("ready: {timeout: 30s}").ready_timeout, milliseconds(30'000));
  EXPECT_EQ(Server("ready: {timeout: 45min}").ready_timeout, milliseconds(2'700'000));
  EXPECT_EQ(Server("ready: {timeout: 2h}").ready_timeout, milliseconds(7'200'000));
  EXPECT_EQ(Server("ready: {timeout: 24h}").ready_timeout, milliseconds(86'400'000));
  EXPECT_EQ(Server("ready: {timeout: 1.5s}").ready_timeout, milliseconds(1500));
  EXPECT_EQ(Server("stop: {timeout: 7s}").stop_timeout, milliseconds(7000));
}

TEST(Values, ServerHasDefaults) {
  const ServerSettings server = Server("env: {}");
  EXPECT_EQ(server.launcher, LauncherKind::kProcess);
  EXPECT_EQ(server.ready_timeout, std::chrono::minutes(10));
  EXPECT_EQ(server.stop_timeout, std::chrono::seconds(30));
}

TEST(Values, EnvironmentIsLiteralOrByName) {
  const Environment env =
      Server(
          "env: {A: yes, B: \"\", C: 8, HF_TOKEN: {from_env: MY_TOKEN}, TOKENIZERS_PARALLELISM: "
          "false, API_KEY: \"\"}")
          .env;
  EXPECT_EQ(env.at("A").literal, "yes");
  EXPECT_EQ(env.at("B").literal, "");
  EXPECT_EQ(env.at("C").literal, "8");
  EXPECT_EQ(env.at("HF_TOKEN").literal, std::nullopt);
  EXPECT_EQ(env.at("HF_TOKEN").from_environment, "MY_TOKEN");
  EXPECT_EQ(env.at("TOKENIZERS_PARALLELISM").literal, "false");
}

TEST(Values, ArgvElementsAreTextAndNoShellReadsThem) {
  const ResolvedPlan plan =
      MustResolve(Edit(kProcessPlan, "[--profile, slow, --fast, --port, $PORT]",
                       "[--tp, 8, \"8\", '', true, \"$(reboot)\", \"a b\", \"~\", $PORT]"));
  EXPECT_THAT(plan.candidate()->command,
              ElementsAre("--tp", "8", "8", "", "true", "$(reboot)", "a b", "~", "$PORT"));
}

TEST(Values, ThePortMayBeInTheEnvironmentOrInsideAnElement) {
  const std::string argv = "[--profile, slow, --fast, --port, $PORT]";
  MustResolve(Edit(kProcessPlan, argv, "[\"--port=$PORT\"]"));
  MustResolve(Edit(kProcessPlan, "command: " + argv, "env: {LISTEN: \"127.0.0.1:$PORT\"}"));
}

ServerSettings Docker(const std::string& lines) {
  const auto plan = ParsePlan(Edit(kDockerPlan, "gpus: all", lines), "gate.yaml");
  if (!plan) ADD_FAILURE() << plan.error().message;
  return plan ? plan->server : ServerSettings{};
}

TEST(Values, DockerSettings) {
  EXPECT_EQ(Docker("gpus: all").gpus, "all");
  EXPECT_EQ(Docker("gpus: [0, 3]").gpus, "0,3");
  EXPECT_EQ(Docker("gpus: 0,3").gpus, "0,3");
  EXPECT_EQ(Docker("gpus: [GPU-3f2a]").gpus, "GPU-3f2a");
  EXPECT_EQ(Docker("ipc: host").gpus, "");
  EXPECT_EQ(Docker("ipc: private").ipc, "private");
  EXPECT_EQ(Docker("ipc: host").pull, PullPolicy::kMissing);
  EXPECT_EQ(Docker("pull: never").pull, PullPolicy::kNever);
  const auto mounts = Docker(
                          "mounts: [{source: /a, target: /b}, {source: /c, target: /d, "
                          "read_only: false}]")
                          .mounts;
  ASSERT_EQ(mounts.size(), 2U);
  EXPECT_EQ(mounts[0].source, "/a");
  EXPECT_EQ(mounts[0].target, "/b");
  EXPECT_TRUE(mounts[0].read_only);
  EXPECT_FALSE(mounts[1].read_only);
}

TEST(Values, AnImageMayHaveATagBesideItsDigest) {
  const std::string twos(kTwos);
  const ResolvedPlan plan =
      MustResolve(Edit(kDockerPlan, "vllm@sha256:" + twos, "host:5000/a/vllm:0.32@sha256:" + twos));
  EXPECT_EQ(plan.candidate()->image, "host:5000/a/vllm:0.32@sha256:" + twos);
}

TEST(Values, DigestsLoseTheirPrefix) {
  const std::string twos(kTwos);
  const ResolvedPlan plan = MustResolve(
      Edit(Edit(kProcessPlan, "sha256: " + twos, "sha256: \"sha256:" + twos + "\""),
           "{served_name: m}", "{served_name: m, digest: \"sha256:" + twos + "\", snapshot: /s}"));
  EXPECT_EQ(plan.candidate()->executable->sha256, twos);
  EXPECT_EQ(plan.candidate()->executable->path, "new");
  EXPECT_EQ(plan.model.digest, twos);
  EXPECT_EQ(plan.model.snapshot, "/s");
  EXPECT_EQ(plan.model.served_name, "m");
}

TEST(Values, WorkloadIsReadWhole) {
  const Workload w =
      MustResolve(Edit(kProcessPlan, "  cases:",
                       "  api: completions\n  sampling: {temperature: 0.5, top_p: 0.9, seed: 3}\n"
                       "  rounds: 5\n  warmup: {requests: 0}\n  guard: {consecutive_failures: 4}\n"
                       "  request_timeout: 9s\n  stall_limit: 8s\n  cases:"))
          .workload;
  EXPECT_EQ(w.prompts.seed, 7U);
  EXPECT_EQ(w.prompts.first_id, 1000);
  EXPECT_EQ(w.prompts.id_count, 20000);
  EXPECT_EQ(w.sampling.temperature, 0.5);
  EXPECT_EQ(w.sampling.top_p, 0.9);
  EXPECT_EQ(w.sampling.seed, 3);
  EXPECT_EQ(w.rounds, 5);
  EXPECT_EQ(w.warmup_requests, 0);
  EXPECT_EQ(w.guard.consecutive_failures, 4);
  EXPECT_EQ(w.request_timeout, milliseconds(9000));
  EXPECT_EQ(w.stall_limit, milliseconds(8000));
  ASSERT_EQ(w.cases.size(), 2U);
  EXPECT_EQ(w.cases[0].name, "short");
  EXPECT_EQ(w.cases[0].input_tokens, 64);
  EXPECT_EQ(w.cases[0].output_tokens, 16);
  EXPECT_EQ(w.cases[0].concurrency, 2);
  EXPECT_EQ(w.cases[0].requests, 4);
  EXPECT_EQ(w.cases[0].shape, "chat");
  EXPECT_EQ(w.cases[1].shape, "");
}

TEST(Values, ACaseMaySayItsRequestsOtherwise) {
  const Workload w =
      MustResolve(
          Edit(Edit(kProcessPlan, "  cases:",
                    "  acceptance: lenient\n  keep_streams: all\n"
                    "  sampling: {temperature: 0.5, top_k: 40, min_p: 0.1}\n  cases:"),
               "{name: long, input_tokens: 512, output_tokens: 16",
               "{name: long, api: chat, prompts: {kind: text, seed: 8, images: 2}, sampling: "
               "{temperature: 1}, allow_empty_output: true, input_tokens: 512, "
               "output_tokens: {max: 16, stop: natural}"))
          .workload;
  EXPECT_EQ(w.acceptance, Acceptance::kLenient);
  EXPECT_EQ(w.keep_streams, KeepStreams::kAll);
  const Case& plain = w.cases[0];
  EXPECT_EQ(plain.api, Api::kCompletions);
  EXPECT_EQ(plain.prompts.kind, PromptKind::kSyntheticTokens);
  EXPECT_EQ(plain.prompts.seed, 7U);
  EXPECT_EQ(plain.sampling.temperature, 0.5);
  EXPECT_EQ(plain.stop, OutputStop::kFixed);
  EXPECT_FALSE(plain.allow_empty_output);
  const Case& own = w.cases[1];
  EXPECT_EQ(own.api, Api::kChat);
  EXPECT_EQ(own.prompts.kind, PromptKind::kText);
  EXPECT_EQ(own.prompts.images, 2);
  EXPECT_EQ(own.sampling.temperature, 1);
  EXPECT_EQ(own.sampling.top_k, 40);
  EXPECT_EQ(own.sampling.min_p, 0.1);
  EXPECT_EQ(own.stop, OutputStop::kNatural);
  EXPECT_EQ(own.output_tokens, 16);
  EXPECT_TRUE(own.allow_empty_output);
}

TEST(Values, PromptsOfTokensAndFilesAreReadWhole) {
  const auto prompts = [](const std::string& text) {
    return MustResolve(Edit(kProcessPlan, "{kind: synthetic-tokens, seed: 7}", text))
        .workload.prompts;
  };
  const Prompts tokens = prompts(
      "{kind: synthetic-tokens, seed: 7, first_id: 10, id_count: 50, excluded_ids: [59, 12, 12, "
      "3], "
      "shared_prefix: 16, turns: 2, fresh: false}");
  EXPECT_EQ(tokens.excluded_ids, (std::vector<std::int64_t>{12, 59}));
  EXPECT_EQ(tokens.shared_prefix, 16);
  EXPECT_EQ(tokens.turns, 2);
  EXPECT_FALSE(tokens.fresh);
}

TEST(Values, WorkloadHasDefaults) {
  const ResolvedPlan plan = MustResolve(kProcessPlan);
  EXPECT_EQ(plan.workload.rounds, 3);
  EXPECT_EQ(plan.workload.warmup_requests, std::nullopt);
  EXPECT_EQ(plan.workload.guard.consecutive_failures, std::nullopt);
  EXPECT_EQ(plan.warmup_requests(plan.workload.cases[0]), 2);
  const ResolvedPlan fixed =
      MustResolve(Edit(kProcessPlan, "  cases:", "  warmup: {requests: 9}\n  cases:"));
  EXPECT_EQ(fixed.warmup_requests(fixed.workload.cases[0]), 9);
  const ResolvedPlan word =
      MustResolve(Edit(kProcessPlan, "  cases:", "  warmup: {requests: concurrency}\n  cases:"));
  EXPECT_EQ(word.warmup_requests(word.workload.cases[0]), 2);
}

TEST(Values, BoundsAreIncluded) {
  EXPECT_EQ(ErrorsOf(Edit(kProcessPlan,
                          "input_tokens: 512, output_tokens: 16, concurrency: 1, requests: 2",
                          "input_tokens: 10000000, output_tokens: 1000000, concurrency: 10000, "
                          "requests: 1000000")),
            "");
  EXPECT_EQ(ErrorsOf(Edit(kProcessPlan, "  cases:", "  rounds: 1000\n  cases:")), "");
  EXPECT_EQ(ErrorsOf(Edit(kProcessPlan, "requests: 4", "requests: 2")), "");
}

TEST(Values, SourcesOfFactsAreReadWhole) {
  const ResolvedPlan plan = MustResolve(
      Edit(kProcessPlan, "command:",
           "log_rules: {sets: [vllm], file: mine.yaml}\n  facts:\n    - {fact: deps, argv: [pip, "
           "freeze]}\n    - {fact: gpu, argv: [nvidia-smi], compare: false}\n  command:"));
  EXPECT_THAT(plan.server.log_rules.sets, ElementsAre("vllm"));
  EXPECT_EQ(plan.server.log_rules.file, "mine.yaml");
  ASSERT_EQ(plan.server.fact_probes.size(), 2U);
  EXPECT_EQ(plan.server.fact_probes[0].fact, "deps");
  EXPECT_THAT(plan.server.fact_probes[0].argv, ElementsAre("pip", "freeze"));
  EXPECT_TRUE(plan.server.fact_probes[0].compared);
  EXPECT_FALSE(plan.server.fact_probes[1].compared);
}

TEST(Values, JudgingIsReadWhole) {
  const ResolvedPlan plan = MustResolve(
      Edit(kProcessPlan, "workload:",
           "boot_noise: {value: 0%, reason: simulated}\nexpected_changes: [{fact: f, from: 1, to: "
           "'2', reason: why}]\nnot_covered: [\"1M context\", images]\nworkload:"));
  EXPECT_EQ(plan.boot_noise.value.value, 0);
  EXPECT_EQ(plan.boot_noise.reason, "simulated");
  ASSERT_EQ(plan.expected_changes.size(), 1U);
  EXPECT_EQ(plan.expected_changes[0].fact, "f");
  EXPECT_EQ(plan.expected_changes[0].from, "1");
  EXPECT_EQ(plan.expected_changes[0].to, "2");
  EXPECT_EQ(plan.expected_changes[0].reason, "why");
  EXPECT_THAT(plan.not_covered, ElementsAre("1M context", "images"));
  EXPECT_EQ(MustResolve(kProcessPlan).boot_noise.value.value, 1.0);
  EXPECT_EQ(MustResolve(Edit(kProcessPlan, "workload:", "boot_noise: 0.5%\nworkload:"))
                .boot_noise.value.value,
            0.5);
}

Gate OnlyGate(const std::string& gate) {
  const ResolvedPlan plan = MustResolve(
      Edit(kProcessPlan, "  - throughput: {case: short, max_loss: 3%}\n  - provenance: {}",
           "  - " + gate));
  if (plan.gates.size() != 1) return {};
  return plan.gates[0];
}

TEST(Values, ThroughputGates) {
  const Gate gain = OnlyGate("throughput: {case: short, min_gain: 50%}");
  EXPECT_EQ(gain.kind(), GateKind::kThroughput);
  EXPECT_EQ(gain.severity, Severity::kRequired);
  EXPECT_EQ(gain.selection.case_name, "short");
  EXPECT_EQ(gain.selection.shape, std::nullopt);
  EXPECT_EQ(gain.location.line, 18);
  EXPECT_EQ(gain.location.column, 5);
  const auto& rule = std::get<ThroughputGate>(gain.rule);
  EXPECT_EQ(rule.min_gain->value, 50);
  EXPECT_EQ(rule.max_loss, std::nullopt);
  EXPECT_EQ(rule.min, std::nullopt);
  const Gate loss = OnlyGate("throughput: {shape: chat, max_loss: 0.5%, on_failures: advisory}");
  EXPECT_EQ(loss.selection.shape, "chat");
  EXPECT_EQ(std::get<ThroughputGate>(loss.rule).max_loss->value, 0.5);
  EXPECT_EQ(std::get<ThroughputGate>(loss.rule).on_failures, OnFailures::kAdvisory);
  const Gate min = OnlyGate("throughput: {case: short, min: 900.5tok/s}");
  EXPECT_EQ(std::get<ThroughputGate>(min.rule).min->value, 900.5);
  EXPECT_EQ(std::get<ThroughputGate>(min.rule).on_failures, OnFailures::kInconclusive);
}

TEST(Values, LatencyGates) {
  const Gate relative =
      OnlyGate("latency: {case: short, metric: tpot, percentile: 50, max_increase: 5%}");
  EXPECT_EQ(relative.kind(), GateKind::kLatency);
  EXPECT_EQ(std::get<LatencyGate>(relative.rule).metric, evidence::Metric::kTpot);
  EXPECT_EQ(std::get<LatencyGate>(relative.rule).percentile, 50);
  EXPECT_EQ(std::get<LatencyGate>(relative.rule).max_increase->value, 5);
  const Gate absolute = OnlyGate("latency: {case: short, metric: e2e, max: 0.5ms}");
  EXPECT_EQ(std::get<LatencyGate>(absolute.rule).percentile, 95);
  EXPECT_EQ(std::get<LatencyGate>(absolute.rule).max, microseconds(500));
  EXPECT_EQ(
      std::get<LatencyGate>(OnlyGate("latency: {case: short, metric: e2e, max: 40us}").rule).max,
      microseconds(40));
}

TEST(Values, FailuresGates) {
  const auto rule = std::get<FailuresGate>(
      OnlyGate("failures: {kind: empty_output, arm: baseline, max_rate: 2%, confidence: 90%}")
          .rule);
  EXPECT_EQ(rule.kind, evidence::FailureKind::kEmptyOutput);
  EXPECT_EQ(rule.arm, "baseline");
  EXPECT_EQ(rule.max_rate.value, 2);
  EXPECT_EQ(rule.confidence.value, 90);
  const auto any = std::get<FailuresGate>(OnlyGate("failures: {kind: any, max_rate: 0%}").rule);
  EXPECT_EQ(any.kind, std::nullopt);
  EXPECT_EQ(any.arm, "candidate");
  EXPECT_EQ(any.confidence.value, 95);
  for (const auto kind : evidence::kAllFailureKinds) {
    const Gate gate =
        OnlyGate("failures: {kind: " + std::string(evidence::Name(kind)) + ", max_rate: 1%}");
    EXPECT_EQ(std::get<FailuresGate>(gate.rule).kind, kind);
  }
}

TEST(Values, ConfidenceOfMeasuringGates) {
  const auto throughput = std::get<ThroughputGate>(
      OnlyGate("throughput: {case: short, max_loss: 3%, confidence: 99%}").rule);
  EXPECT_EQ(throughput.confidence.value, 99);
  const auto latency =
      std::get<LatencyGate>(OnlyGate("latency: {case: short, metric: ttft, max_increase: 5%, "
                                     "confidence: 97.5%}")
                                .rule);
  EXPECT_EQ(latency.confidence.value, 97.5);
  EXPECT_EQ(std::get<ThroughputGate>(OnlyGate("throughput: {case: short, max_loss: 3%}").rule)
                .confidence.value,
            95);
}

TEST(Values, NativeGates) {
  const Gate by_name = OnlyGate("native: {name: UpgradeTest.LongInputsGain}");
  EXPECT_EQ(by_name.kind(), GateKind::kNative);
  EXPECT_EQ(by_name.id, "UpgradeTest.LongInputsGain");
  EXPECT_EQ(std::get<NativeGate>(by_name.rule).test, "UpgradeTest.LongInputsGain");
  const Gate by_test = OnlyGate("native: {test: UpgradeTest.LongInputsGain}");
  EXPECT_EQ(by_test.id, "UpgradeTest.LongInputsGain");
  const Gate both = OnlyGate("native: {name: gain, test: All/Suite_1.Gain/0}");
  EXPECT_EQ(both.id, "gain");
  EXPECT_EQ(std::get<NativeGate>(both.rule).test, "All/Suite_1.Gain/0");
}

std::string GateErrors(const std::string& gate) {
  return ErrorsOf(Edit(kProcessPlan,
                       "  - throughput: {case: short, max_loss: 3%}\n  - provenance: {}",
                       "  - " + gate + "\n  - provenance: {}"));
}

TEST(Values, NativeGatesNameOneTestExactly) {
  EXPECT_THAT(GateErrors("native: {}"),
              testing::HasSubstr("has no \"name\": the full name of a test, Suite.Name"));
  for (const char* name : {"LongInputsGain", "a.b.c", "a-b.c", ".b", "a."}) {
    EXPECT_NE(GateErrors(std::string("native: {name: ") + name + "}"), "") << name;
  }
  for (const char* test :
       {"A.B*", "A.B:C.D", "-A.B", "A.B-C.D", "A.?", "A B.C", "A.B.C", "All/A"}) {
    EXPECT_NE(GateErrors(std::string("native: {name: gain, test: \"") + test + "\"}"), "") << test;
  }
  EXPECT_THAT(GateErrors("native: {test: All/Suite.Gain/0}"),
              testing::HasSubstr("a native gate whose test is \"All/Suite.Gain/0\" needs a name"));
  EXPECT_THAT(
      GateErrors("native: {name: gain}"),
      testing::HasSubstr("\"gain\" is not the full name of a test: write Suite.Name, or add "
                         "test: Suite.Name beside the name"));
  EXPECT_THAT(GateErrors("native: {name: A.B, case: short}"), testing::HasSubstr("unknown key"));
}

}  // namespace
}  // namespace upgrade_gate::plan
