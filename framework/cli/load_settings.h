// What `upgrade-gate load` was asked to do, read from its arguments. Strict: the
// error names the argument, what is wrong and what to write.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/result.h"
#include "framework/cli/commands.h"
#include "framework/gates/fail_if.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::cli {

struct LoadSettings {
  std::string base;      // "https://gateway/team-a", without the /v1
  std::string endpoint;  // "https://gateway/team-a/v1/completions"
  std::string model;
  // Shape and load of a round as a plan has it. `requests` is 0 with `duration`.
  plan::Case round;
  plan::Acceptance acceptance = plan::Acceptance::kStrict;
  std::optional<std::chrono::nanoseconds> duration;
  int rounds = 1;
  int warmup = 0;
  std::chrono::milliseconds stall_limit = std::chrono::seconds(120);
  std::chrono::milliseconds request_timeout = std::chrono::minutes(10);
  std::optional<std::uint64_t> seed;
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<std::string> token_env, token_file;
  std::string ca_file;                   // empty: the system's authorities
  std::optional<std::string> json;       // "-": standard output
  std::optional<std::string> save_vllm;  // a file
  std::vector<gates::FailIf> fail_if;
};

// All errors at once, a line each.
base::Result<LoadSettings> ReadLoadOptions(const LoadOptions& options);

}  // namespace upgrade_gate::cli
