// What a load test writes for machines: its own JSON, and the file of another tool.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/cli/load_settings.h"
#include "framework/evidence/load_numbers.h"
#include "framework/gates/fail_if.h"

namespace upgrade_gate::cli {

struct LoadTest {
  std::vector<evidence::LoadRound> rounds;
  std::vector<evidence::RequestRecord> warmup;
  std::string started_at;  // UTC
  std::uint64_t seed = 0;
  std::string incomplete;  // empty: complete; otherwise why not
  std::string input;       // "synthetic token ids": what the prompts are
};

// `load --json`, schema 1.
std::string WriteLoadJson(const LoadSettings& settings, const LoadTest& test,
                          const evidence::LoadNumbers& numbers,
                          const std::vector<gates::FailIfResult>& conditions);

// The fields of `vllm bench serve --save-result --save-detailed`, for scripts that
// read them. Means, deviations and percentiles are taken as there (over all rounds
// together, percentiles interpolated); what is measured differs, and the field
// "upgrade_gate" says how.
std::string WriteVllmResult(const LoadSettings& settings, const LoadTest& test);

}  // namespace upgrade_gate::cli
