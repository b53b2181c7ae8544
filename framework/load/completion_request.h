// The bytes of a /v1/completions request.
//
// Bodies are built once a round and sent to both arms, so they are equal byte
// for byte; every sampling field is always sent, in one fixed order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/digest.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::load {

using TokenIds = std::vector<std::int64_t>;

// A request ready to be sent, with what its answer must be held against.
struct PreparedRequest {
  std::string body;
  base::Sha256Hex body_sha256;
  base::Sha256Hex prompt_sha256;
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
};

// Identifies a prompt whatever the rest of the request says, so that a replay
// can hold the input fixed: SHA-256 of the decimal token ids joined by ",".
base::Sha256Hex PromptFingerprint(const TokenIds& prompt);

// Streaming, usage included, exactly `output_tokens` long: `ignore_eos` and
// `min_tokens` say so to the servers that know them; the others ignore them.
PreparedRequest PrepareCompletion(const std::string& served_name, const plan::Sampling& sampling,
                                  const TokenIds& prompt, std::int64_t output_tokens);

}  // namespace upgrade_gate::load
