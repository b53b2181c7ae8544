#include "framework/load/completion_request.h"

#include <gtest/gtest.h>

#include "framework/base/digest.h"

namespace upgrade_gate::load {
namespace {

TEST(CompletionRequest, HasExactlyTheseBytes) {
  const PreparedRequest request =
      PrepareCompletion("deepseek-v41-flash", {}, {1000, 1001, 20999}, 128);
  EXPECT_EQ(request.body,
            R"({"model":"deepseek-v41-flash","prompt":[1000,1001,20999],"max_tokens":128,)"
            R"("min_tokens":128,"temperature":0,"top_p":1,"seed":1,"ignore_eos":true,)"
            R"("stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(request.input_tokens, 3);
  EXPECT_EQ(request.output_tokens, 128);
  EXPECT_EQ(request.body_sha256, base::Sha256Of(request.body));
}

TEST(CompletionRequest, WritesSamplingInItsShortestForm) {
  const PreparedRequest request =
      PrepareCompletion("m", {.temperature = 0.7, .top_p = 0.95, .seed = -3}, {5}, 1);
  EXPECT_EQ(request.body,
            R"({"model":"m","prompt":[5],"max_tokens":1,"min_tokens":1,"temperature":0.7,)"
            R"("top_p":0.95,"seed":-3,"ignore_eos":true,"stream":true,)"
            R"("stream_options":{"include_usage":true}})");
}

TEST(CompletionRequest, EscapesTheModelsName) {
  const PreparedRequest request = PrepareCompletion("a\"\\\n{}", {}, {5}, 1);
  EXPECT_EQ(request.body.substr(0, 34), R"({"model":"a\"\\\n{}","prompt":[5],)");
}

TEST(CompletionRequest, FingerprintsThePromptAlone) {
  // printf '1000,1001,20999' | sha256sum
  const char* const expected = "2f0b09ebceb0c75becdf90bf2b4605fdfe9a9b23a4d2c11f877032ee2f2d6996";
  EXPECT_EQ(PromptFingerprint({1000, 1001, 20999}), expected);
  EXPECT_EQ(PrepareCompletion("m", {}, {1000, 1001, 20999}, 1).prompt_sha256, expected);
  EXPECT_EQ(PrepareCompletion("n", {.seed = 9}, {1000, 1001, 20999}, 2).prompt_sha256, expected);
  EXPECT_NE(PromptFingerprint({10001001, 20999}), expected);
}

}  // namespace
}  // namespace upgrade_gate::load
