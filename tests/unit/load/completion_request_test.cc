#include "framework/load/completion_request.h"

#include <gtest/gtest.h>

#include "framework/base/digest.h"

namespace upgrade_gate::load {
namespace {

const std::string kSamplingTail =
    R"("temperature":0,"top_p":1,"top_k":-1,"min_p":0,"presence_penalty":0,"frequency_penalty":0,)"
    R"("repetition_penalty":1,"seed":1,"n":1,"ignore_eos":true,"stream":true,)"
    R"("stream_options":{"include_usage":true}})";

RequestSettings Settings(plan::Api api = plan::Api::kCompletions, std::int64_t output = 128) {
  RequestSettings settings;
  settings.served_name = "deepseek-v41-flash";
  settings.api = api;
  settings.output_tokens = output;
  return settings;
}

PreparedRequest Prepared(const RequestSettings& settings, const Prompt& prompt) {
  const auto request = PrepareRequest(settings, prompt);
  EXPECT_TRUE(request) << request.error().message;
  return request.value_or(PreparedRequest{});
}

Prompt Ids(TokenIds ids) {
  const auto size = static_cast<std::int64_t>(ids.size());
  return {.input = std::move(ids), .tokens = size};
}

TEST(CompletionRequest, HasExactlyTheseBytes) {
  const PreparedRequest request = Prepared(Settings(), Ids({1000, 1001, 20999}));
  EXPECT_EQ(request.body,
            R"({"model":"deepseek-v41-flash","prompt":[1000,1001,20999],"max_tokens":128,)"
            R"("min_tokens":128,)" +
                kSamplingTail);
  EXPECT_EQ(request.expected.input_tokens, 3);
  EXPECT_EQ(request.expected.input, InputCount::kExact);
  EXPECT_EQ(request.expected.output_tokens, 128);
  EXPECT_EQ(request.body_sha256, base::Sha256Of(request.body));
}

TEST(CompletionRequest, WritesSamplingInItsShortestForm) {
  RequestSettings settings = Settings();
  settings.sampling = {.temperature = 0.7,
                       .top_p = 0.95,
                       .seed = -3,
                       .top_k = 40,
                       .min_p = 0.05,
                       .presence_penalty = -1.5,
                       .frequency_penalty = 2,
                       .repetition_penalty = 1.1};
  settings.stop = plan::OutputStop::kNatural;
  EXPECT_EQ(Prepared(settings, Ids({5})).body,
            R"({"model":"deepseek-v41-flash","prompt":[5],"max_tokens":128,"min_tokens":0,)"
            R"("temperature":0.7,"top_p":0.95,"top_k":40,"min_p":0.05,"presence_penalty":-1.5,)"
            R"("frequency_penalty":2,"repetition_penalty":1.1,"seed":-3,"n":1,"ignore_eos":false,)"
            R"("stream":true,"stream_options":{"include_usage":true}})");
}

TEST(CompletionRequest, EscapesTheModelsNameAndTexts) {
  RequestSettings settings = Settings();
  settings.served_name = "a\"\\\n{}";
  EXPECT_EQ(Prepared(settings, {.input = std::string("x\"\n\x01")}).body.substr(0, 46),
            R"({"model":"a\"\\\n{}","prompt":"x\"\n\u0001","m)");
}

TEST(CompletionRequest, AChatHasMessagesAndImagesAfterTheirText) {
  const std::vector<Message> messages = {
      {.role = "system", .text = "Be brief.", .images = {}},
      {.role = "user", .text = "What is it?", .images = {"data:image/png;base64,AA==", "u"}}};
  const PreparedRequest request =
      Prepared(Settings(plan::Api::kChat), {.input = messages, .tokens = 7});
  EXPECT_EQ(
      request.body,
      R"({"model":"deepseek-v41-flash","messages":[{"role":"system","content":"Be brief."},)"
      R"({"role":"user","content":[{"type":"text","text":"What is it?"},)"
      R"({"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},)"
      R"({"type":"image_url","image_url":{"url":"u"}}]}],"max_tokens":128,"min_tokens":128,)" +
          kSamplingTail);
  EXPECT_EQ(request.expected.form.api, plan::Api::kChat);
  EXPECT_EQ(request.expected.input, InputCount::kAtLeast);
  EXPECT_EQ(
      request.prompt_sha256,
      base::Sha256Of("system\nBe brief.\nuser\nWhat is it?\ndata:image/png;base64,AA==\nu\n"));
}

TEST(CompletionRequest, OfAWholeBodyOnlyWhatMeasuringNeedsIsSet) {
  const PreparedRequest request =
      Prepared(Settings(plan::Api::kChat),
               {.input = WholeBody{R"({"messages":[],"temperature":0.5,"n":2,"tools":[{"x":1}],)"
                                   R"("max_tokens":9,"model":"other","stream":false})"}});
  EXPECT_EQ(request.body,
            R"({"messages":[],"temperature":0.5,"n":2,"tools":[{"x":1}],"max_tokens":9,)"
            R"("model":"deepseek-v41-flash","stream":true,"min_tokens":9,"top_p":1.0,"top_k":-1,)"
            R"("min_p":0.0,"presence_penalty":0.0,"frequency_penalty":0.0,)"
            R"("repetition_penalty":1.0,"seed":1,"ignore_eos":true,)"
            R"("stream_options":{"include_usage":true}})");
  EXPECT_EQ(request.expected.form.choices, 2);
  EXPECT_EQ(request.expected.output_tokens, 9);
  EXPECT_EQ(request.expected.input_tokens, std::nullopt);
}

TEST(CompletionRequest, AWholeBodyThatCannotBeAskedIsRefused) {
  const auto refused = [](const char* body) {
    const auto request = PrepareRequest(Settings(plan::Api::kChat), {.input = WholeBody{body}});
    return request ? "(no error)" : request.error().message;
  };
  EXPECT_EQ(refused("[]"), "a body must be a JSON object");
  EXPECT_EQ(refused(R"({"prompt":"x"})"),
            "the body has no \"messages\", which /v1/chat/completions takes");
  EXPECT_EQ(refused(R"({"messages":[],"n":0})"), "\"n\" must be a whole number from 1 to 128");
  EXPECT_EQ(refused(R"({"messages":[],"max_tokens":1.5})"),
            "\"max_tokens\" must be a whole number from 1 to 1000000");
}

TEST(CompletionRequest, FingerprintsThePromptAlone) {
  // printf '1000,1001,20999' | sha256sum
  const char* const expected = "2f0b09ebceb0c75becdf90bf2b4605fdfe9a9b23a4d2c11f877032ee2f2d6996";
  EXPECT_EQ(PromptFingerprint(Ids({1000, 1001, 20999})), expected);
  EXPECT_EQ(Prepared(Settings(), Ids({1000, 1001, 20999})).prompt_sha256, expected);
  RequestSettings other = Settings(plan::Api::kCompletions, 2);
  other.served_name = "n";
  other.sampling.seed = 9;
  EXPECT_EQ(Prepared(other, Ids({1000, 1001, 20999})).prompt_sha256, expected);
  EXPECT_NE(PromptFingerprint(Ids({10001001, 20999})), expected);
  EXPECT_EQ(PromptFingerprint({.input = std::string("abc")}), base::Sha256Of("abc"));
}

}  // namespace
}  // namespace upgrade_gate::load
