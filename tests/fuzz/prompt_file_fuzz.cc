// Files of prompts. Input: '0' to '5' for the format and the interface, the file.
#include <cstdint>
#include <string_view>

#include "fixtures/prompts/prompt_file.h"
#include "framework/base/json.h"
#include "framework/base/text.h"

namespace upgrade_gate::prompts {
namespace {

void Run(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto choice = static_cast<unsigned char>(bytes.front()) % 6;
  const auto format = static_cast<plan::PromptFormat>(choice / 2);
  const auto api = choice % 2 == 0 ? plan::Api::kCompletions : plan::Api::kChat;
  const auto prompts = ParsePromptFile(bytes.substr(1), "p", format, api);
  if (!prompts) {
    UG_CHECK(prompts.error().message.starts_with("p:"));
    UG_CHECK(base::IsValidUtf8(prompts.error().message));
    return;
  }
  UG_CHECK(!prompts->empty());
  for (const load::Prompt& prompt : *prompts) {
    const load::RequestSettings settings{.served_name = "m", .sampling = {}, .api = api};
    const auto request = load::PrepareRequest(settings, prompt);
    UG_CHECK(request.has_value());
    const auto body = base::ParseJson(request->body);
    UG_CHECK(body.has_value() && body->contains("stream") && (*body)["stream"] == true);
  }
}

}  // namespace
}  // namespace upgrade_gate::prompts

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  upgrade_gate::prompts::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
