// The bytes of a request to /v1/completions or /v1/chat/completions.
//
// Bodies are built once a round and sent to both arms, so they are equal byte
// for byte; every sampling field is always sent, in one fixed order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/base/digest.h"
#include "framework/base/result.h"
#include "framework/load/acceptance.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::load {

using TokenIds = std::vector<std::int64_t>;

struct Message {
  std::string role;
  std::string text;
  std::vector<std::string> images = {};  // URLs, after the text
  bool operator==(const Message&) const = default;
};

// A request as the user wrote it, a JSON object. Of it this client sets "model",
// "stream" and "stream_options", without which there is nothing to measure, and
// the fields of the case and its sampling where they are absent.
struct WholeBody {
  std::string json;
  bool operator==(const WholeBody&) const = default;
};

struct Prompt {
  std::variant<TokenIds, std::string, std::vector<Message>, WholeBody> input;
  // By the server's tokenizer, without what a chat template adds; absent: not known.
  std::optional<std::int64_t> tokens = {};
};

// A request ready to be sent, with what its answer must be held against.
struct PreparedRequest {
  std::string body;
  base::Sha256Hex body_sha256;
  base::Sha256Hex prompt_sha256;
  Expectation expected;
};

// "/v1/completions", "/v1/chat/completions"
std::string_view PathOf(plan::Api api);

// Identifies a prompt whatever the rest of the request says, so that a replay
// can hold the input fixed. SHA-256 of
//   token ids: their decimal digits joined by ","
//   a text: its bytes
//   messages: "role\ntext\n" and "url\n" for each image, one after the other
//   a whole body: its bytes as the user wrote them
base::Sha256Hex PromptFingerprint(const Prompt& prompt);

// What a request is besides its prompt.
struct RequestSettings {
  std::string served_name;
  plan::Sampling sampling = {};
  plan::Api api = plan::Api::kCompletions;
  std::int64_t output_tokens = 1;
  plan::OutputStop stop = plan::OutputStop::kFixed;
  bool allow_empty_output = false;
  plan::Acceptance acceptance = plan::Acceptance::kStrict;
};
RequestSettings SettingsOf(const plan::ResolvedPlan& plan, const plan::Case& of);

// Streaming, usage included. Of a fixed length: `ignore_eos` and `min_tokens` say
// so to the servers that know them; the others ignore them. An error, without a
// place, only for a whole body that cannot be asked as it stands.
base::Result<PreparedRequest> PrepareRequest(const RequestSettings& settings, const Prompt& prompt);
// Of token ids and a fixed length; never fails.
PreparedRequest PrepareCompletion(const std::string& served_name, const plan::Sampling& sampling,
                                  const TokenIds& prompt, std::int64_t output_tokens);

}  // namespace upgrade_gate::load
