#include "tests/golden/golden_plans.h"

#include <cmath>
#include <utility>

namespace upgrade_gate::golden {
namespace {

std::string Plan(std::string_view name, std::string_view noise, int rounds, std::string_view cases,
                 std::string_view gates) {
  std::string text = "version: 1\nname: ";
  text += name;
  text += R"(
model: {served_name: example-model}
server:
  launcher: process
  command: [--max-num-seqs, "32", --port, $PORT]
arms:
  baseline:
    executable: {path: servers/old, sha256: 1111111111111111111111111111111111111111111111111111111111111111}
  candidate:
    executable: {path: servers/new, sha256: 2222222222222222222222222222222222222222222222222222222222222222}
order: [baseline, candidate]
boot_noise: )";
  text += noise;
  text +=
      "\nworkload:\n  prompts: {kind: synthetic-tokens, seed: 7}\n  warmup: {requests: 1}\n  "
      "rounds: ";
  text += std::to_string(rounds) + "\n  cases:\n";
  text += cases;
  text += "not_covered: [\"1M context\", \"long-duration stability\"]\ngates:\n";
  text += gates;
  return text;
}

// value·exp(sd·{…}): the logs of three rounds around ln(value).
std::vector<double> Around(double value, double sd, const std::vector<double>& steps) {
  std::vector<double> values;
  for (const double step : steps) values.push_back(value * std::exp(sd * step));
  return values;
}

const std::vector<double> kUp = {-1, 0, 1};
const std::vector<double> kMixed = {0, -1, 1};

constexpr std::string_view kTwoCases =
    R"(    - {name: 1k-512-c1, input_tokens: 1024, output_tokens: 512, concurrency: 1, requests: 8, shape: single_stream}
    - {name: 8k-256-c8, input_tokens: 8192, output_tokens: 256, concurrency: 8, requests: 16, shape: long_input}
)";

constexpr std::string_view kTwoCaseGates = R"(  - throughput: {case: 1k-512-c1, max_loss: 3%}
  - throughput: {shape: long_input, max_loss: 3%}
  - latency: {case: 8k-256-c8, metric: ttft, percentile: 95, max_increase: 5%}
  - failures: {kind: any, max_rate: 5%}
  - provenance: {}
)";

// The candidate differs by the noise of the rounds alone.
Golden Unchanged() {
  return {
      .name = "unchanged",
      .plan = Plan("unchanged", "1%", 3, kTwoCases, kTwoCaseGates),
      .cases = {
          {"1k-512-c1", {Around(115, 0.002, kUp), {}, 120}, {Around(115, 0.002, kMixed), {}, 120}},
          {"8k-256-c8",
           {Around(320, 0.002, kMixed), {}, 1000},
           {Around(321, 0.002, kUp), {}, 1001}}}};
}

// A quarter fewer tokens a second, and the same time to first text.
Golden SlowerDecode() {
  return {.name = "slower_decode",
          .plan = Plan("slower-decode", "1%", 3, kTwoCases, kTwoCaseGates),
          .cases = {{"1k-512-c1",
                     {Around(115.2, 0.002, kUp), {}, 120},
                     {Around(86.4, 0.002, kMixed), {}, 120}},
                    {"8k-256-c8",
                     {Around(320, 0.002, kMixed), {}, 1000},
                     {Around(240, 0.002, kUp), {}, 1000}}}};
}

// 984 requests an arm; the candidate is faster and 40 of its answers are empty.
Golden EmptyOutputs() {
  return {
      .name = "empty_outputs",
      .plan = Plan(
          "empty-outputs", "1%", 3,
          R"(    - {name: 1k-128-c4, input_tokens: 1024, output_tokens: 128, concurrency: 4, requests: 164, shape: short_input}
    - {name: 8k-256-c4, input_tokens: 8192, output_tokens: 256, concurrency: 4, requests: 164, shape: long_input}
)",
          R"(  - failures: {kind: empty_output, max_rate: 2%}
  - throughput: {case: 1k-128-c4, min_gain: 10%}
  - throughput: {case: 1k-128-c4, max_loss: 3%, on_failures: advisory, name: observed-loss}
  - throughput: {case: 8k-256-c4, min_gain: 10%}
  - latency: {case: 1k-128-c4, metric: ttft, max_increase: 5%}
  - provenance: {}
)"),
      .cases = {{"1k-128-c4",
                 {Around(500, 0.002, kUp), {}, 400},
                 {Around(600, 0.002, kMixed), {14, 13, 13}, 300}},
                {"8k-256-c4",
                 {Around(320, 0.002, kMixed), {}, 1000},
                 {Around(480, 0.002, kUp), {}, 700}}}};
}

// Half as fast, and one round cannot show it.
Golden TooFewRounds() {
  return {.name = "too_few_rounds",
          .plan = Plan("too-few-rounds", "1%", 1, kTwoCases, kTwoCaseGates),
          .cases = {{"1k-512-c1", {{115}, {}, 120}, {{57.5}, {}, 240}},
                    {"8k-256-c8", {{320}, {}, 1000}, {{160}, {}, 2000}}}};
}

// Ten cases, 1,968 requests, 6 and 11 of 984 without text; 115.00 → 113.69 tok/s
// with 0.75 % between rounds; 8K at concurrency 8 at 2.226 times the baseline
// and 62.8 % less time to first text. The other numbers are made up.
Golden Article() {
  const auto plain = [](std::string name, double baseline, double candidate, double ttft) {
    return CaseNumbers{std::move(name),
                       {Around(baseline, 0.0075, kUp), {}, ttft},
                       {Around(candidate, 0.0075, kMixed), {}, ttft * 0.9}};
  };
  CaseNumbers long_input = plain("8k-256-c8", 100, 222.6, 1000);
  long_input.candidate.ttft_ms = 372;
  CaseNumbers short_c32 = plain("1k-128-c32", 700, 800, 900);
  short_c32.baseline.empty = {2, 1, 1};
  short_c32.candidate.empty = {2, 2, 2};
  CaseNumbers long_c32 = plain("1k-512-c32", 900, 950, 900);
  long_c32.baseline.empty = {0, 2, 0};
  long_c32.candidate.empty = {1, 1, 3};
  return {
      .name = "article",
      .plan = Plan(
          "article", "1%", 3,
          R"(    - {name: 1k-128-c1, input_tokens: 1024, output_tokens: 128, concurrency: 1, requests: 8, shape: short_output}
    - {name: 1k-128-c8, input_tokens: 1024, output_tokens: 128, concurrency: 8, requests: 16, shape: short_output}
    - {name: 1k-128-c32, input_tokens: 1024, output_tokens: 128, concurrency: 32, requests: 64, shape: short_output}
    - {name: 4k-256-c32, input_tokens: 4096, output_tokens: 256, concurrency: 32, requests: 64, shape: long_input}
    - {name: 8k-256-c1, input_tokens: 8192, output_tokens: 256, concurrency: 1, requests: 8, shape: long_input}
    - {name: 8k-256-c8, input_tokens: 8192, output_tokens: 256, concurrency: 8, requests: 16, shape: long_input}
    - {name: 8k-256-c32, input_tokens: 8192, output_tokens: 256, concurrency: 32, requests: 64, shape: long_input}
    - {name: 1k-512-c1, input_tokens: 1024, output_tokens: 512, concurrency: 1, requests: 8, shape: long_output}
    - {name: 1k-512-c8, input_tokens: 1024, output_tokens: 512, concurrency: 8, requests: 16, shape: long_output}
    - {name: 1k-512-c32, input_tokens: 1024, output_tokens: 512, concurrency: 32, requests: 64, shape: long_output}
)",
          R"(  - throughput: {case: 8k-256-c8, min_gain: 50%}
  - throughput: {case: 1k-512-c1, max_loss: 3%}
  - throughput: {shape: long_output, max_loss: 5%, severity: advisory}
  - latency: {case: 8k-256-c8, metric: ttft, percentile: 95, max_increase: 5%}
  - failures: {kind: empty_output, max_rate: 2%}
  - failures: {kind: empty_output, max_rate: 1%, severity: advisory, name: strict-failures}
  - provenance: {}
)"),
      .cases = {plain("1k-128-c1", 110, 111, 120), plain("1k-128-c8", 400, 430, 300), short_c32,
                plain("4k-256-c32", 300, 600, 4000), plain("8k-256-c1", 60, 85, 500), long_input,
                plain("8k-256-c32", 110, 260, 9000), plain("1k-512-c1", 115.00, 113.69, 120),
                plain("1k-512-c8", 480, 490, 300), long_c32}};
}

}  // namespace

std::vector<Golden> AllGolden() {
  return {Unchanged(), SlowerDecode(), EmptyOutputs(), TooFewRounds(), Article()};
}

}  // namespace upgrade_gate::golden
