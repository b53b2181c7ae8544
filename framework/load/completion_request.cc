#include "framework/load/completion_request.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <iterator>

#include "framework/base/json.h"

namespace upgrade_gate::load {
namespace {

std::string Joined(const TokenIds& ids) {
  std::string text;
  text.reserve(ids.size() * 6);
  for (const std::int64_t id : ids) {
    if (!text.empty()) text.push_back(',');
    fmt::format_to(std::back_inserter(text), FMT_COMPILE("{}"), id);
  }
  return text;
}

}  // namespace

base::Sha256Hex PromptFingerprint(const TokenIds& prompt) {
  return base::Sha256Of(Joined(prompt));
}

PreparedRequest PrepareCompletion(const std::string& served_name, const plan::Sampling& sampling,
                                  const TokenIds& prompt, std::int64_t output_tokens) {
  const std::string ids = Joined(prompt);
  PreparedRequest request;
  // Written by hand: the order of the keys and the form of the numbers are part
  // of the bytes that both arms must get. fmt writes doubles in their shortest
  // form, whatever the locale.
  request.body = fmt::format(
      R"({{"model":{},"prompt":[{}],"max_tokens":{},"min_tokens":{},"temperature":{},"top_p":{},)"
      R"("seed":{},"ignore_eos":true,"stream":true,"stream_options":{{"include_usage":true}}}})",
      base::WriteJsonLine(base::Json(served_name)), ids, output_tokens, output_tokens,
      sampling.temperature, sampling.top_p, sampling.seed);
  request.body_sha256 = base::Sha256Of(request.body);
  request.prompt_sha256 = base::Sha256Of(ids);
  request.input_tokens = static_cast<std::int64_t>(prompt.size());
  request.output_tokens = output_tokens;
  return request;
}

}  // namespace upgrade_gate::load
