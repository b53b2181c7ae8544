// A small valid plan, and edits of it whose errors have a marked place.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "framework/plan/plan_file.h"

namespace upgrade_gate::plan {

inline constexpr std::string_view kOnes =
    "1111111111111111111111111111111111111111111111111111111111111111";
inline constexpr std::string_view kTwos =
    "2222222222222222222222222222222222222222222222222222222222222222";

inline constexpr std::string_view kProcessPlan = R"(version: 1
name: demo
model: {served_name: m}
server:
  launcher: process
  command: [--profile, slow, --fast, --port, $PORT]
arms:
  baseline:
    executable: {path: old, sha256: 1111111111111111111111111111111111111111111111111111111111111111}
  candidate:
    executable: {path: new, sha256: 2222222222222222222222222222222222222222222222222222222222222222}
workload:
  prompts: {kind: synthetic-tokens, seed: 7}
  cases:
    - {name: short, input_tokens: 64, output_tokens: 16, concurrency: 2, requests: 4, shape: chat}
    - {name: long, input_tokens: 512, output_tokens: 16, concurrency: 1, requests: 2}
gates:
  - throughput: {case: short, max_loss: 3%}
  - provenance: {}
)";

inline constexpr std::string_view kDockerPlan = R"(version: 1
name: demo
model: {served_name: m}
server:
  launcher: docker
  command: [--port, $PORT]
  gpus: all
arms:
  baseline: {image: vllm@sha256:1111111111111111111111111111111111111111111111111111111111111111}
  candidate: {image: vllm@sha256:2222222222222222222222222222222222222222222222222222222222222222}
workload:
  prompts: {kind: synthetic-tokens, seed: 7}
  cases:
    - {name: short, input_tokens: 64, output_tokens: 16, concurrency: 2, requests: 4}
gates:
  - provenance: {}
)";

// `base` with its one occurrence of `from` replaced.
inline std::string Edit(std::string_view base, std::string_view from, std::string_view to) {
  std::string text(base);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "the base plan does not hold: " << from;
  if (at == std::string::npos) return text;
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << "more than once: " << from;
  return text.replace(at, from.size(), to);
}

struct Marked {
  std::string text;                 // without the marks
  std::vector<std::string> places;  // "line:column" of each "^"
};

inline Marked Unmark(std::string_view text) {
  Marked marked;
  int line = 1;
  int column = 1;
  for (const char c : text) {
    if (c == '^') {
      marked.places.push_back(std::to_string(line) + ":" + std::to_string(column));
      continue;
    }
    marked.text += c;
    const bool continues = (static_cast<unsigned char>(c) & 0xc0) == 0x80;
    if (c == '\n') {
      ++line;
      column = 1;
    } else if (!continues) {
      ++column;
    }
  }
  return marked;
}

// All errors of a plan, from whichever step finds them; empty for a good plan.
inline std::string ErrorsOf(std::string_view yaml) {
  const auto plan = ParsePlan(yaml, "gate.yaml");
  if (!plan) return plan.error().message;
  const auto resolved = Resolve(*plan, "gate.yaml");
  return resolved ? "" : resolved.error().message;
}

inline ResolvedPlan MustResolve(std::string_view yaml) {
  const auto plan = ParsePlan(yaml, "gate.yaml");
  if (!plan) {
    ADD_FAILURE() << plan.error().message;
    return {};
  }
  auto resolved = Resolve(*plan, "gate.yaml");
  if (!resolved) {
    ADD_FAILURE() << resolved.error().message;
    return {};
  }
  return std::move(*resolved);
}

// An edit whose result has errors at the places marked "^", with these messages.
struct BadEdit {
  const char* name;
  std::string_view base;
  std::string from;
  std::string to;
  std::vector<std::string> messages;
};

inline void PrintTo(const BadEdit& edit, std::ostream* out) {
  *out << edit.name;
}

inline void ExpectErrors(const BadEdit& edit) {
  const Marked marked = Unmark(Edit(edit.base, edit.from, edit.to));
  ASSERT_EQ(marked.places.size(), edit.messages.size()) << "one mark for each message";
  std::string expected;
  for (std::size_t i = 0; i < edit.messages.size(); ++i) {
    if (i > 0) expected += '\n';
    expected += "gate.yaml:" + marked.places[i] + ": " + edit.messages[i];
  }
  EXPECT_EQ(ErrorsOf(marked.text), expected);
}

}  // namespace upgrade_gate::plan
