#include "framework/capture/case_prompts.h"

#include <fmt/format.h>

#include <string>

#include "framework/base/compression.h"
#include "framework/base/file.h"
#include "framework/base/json.h"
#include "framework/evidence/limits.h"
#include "framework/evidence/store.h"

namespace upgrade_gate::capture {
namespace {

using base::Json;
using evidence::Phase;
using load::Prompt;

Json ToJson(const Prompt& prompt) {
  Json json = {{"prompt_sha256", load::PromptFingerprint(prompt)}};
  if (const auto* ids = std::get_if<load::TokenIds>(&prompt.input)) {
    json["token_ids"] = *ids;
  } else if (const auto* text = std::get_if<std::string>(&prompt.input)) {
    json["text"] = *text;
  } else if (const auto* whole = std::get_if<load::WholeBody>(&prompt.input)) {
    json["body"] = whole->json;
  } else {
    json["messages"] = Json::array();
    for (const load::Message& message : std::get<std::vector<load::Message>>(prompt.input)) {
      json["messages"].push_back(
          {{"role", message.role}, {"text", message.text}, {"images", message.images}});
    }
  }
  return json;
}

// Only the two forms that text has.
base::Result<Prompt> FromJson(const Json& json, std::int64_t tokens) {
  Prompt prompt;
  prompt.tokens = tokens;
  if (json.is_object() && json.contains("text")) {
    UG_ASSIGN(prompt.input, base::StringMember(json, "text"));
  } else {
    UG_ASSIGN(const Json* list, base::Member(json, "messages"));
    std::vector<load::Message> messages;
    for (const Json& item : *list) {
      load::Message& message = messages.emplace_back();
      UG_ASSIGN(message.role, base::StringMember(item, "role"));
      UG_ASSIGN(message.text, base::StringMember(item, "text"));
      UG_ASSIGN(const Json* images, base::Member(item, "images"));
      for (const Json& url : *images) {
        if (!url.is_string()) return base::EvidenceError("an image is not a URL");
        message.images.push_back(url.get<std::string>());
      }
    }
    prompt.input = std::move(messages);
  }
  UG_ASSIGN(const std::string said, base::StringMember(json, "prompt_sha256"));
  if (said != load::PromptFingerprint(prompt)) {
    return base::EvidenceError("\"prompt_sha256\" is not the prompt's");
  }
  return prompt;
}

std::string Line(Phase phase, int round, const std::vector<Prompt>& prompts) {
  Json requests = Json::array();
  for (const Prompt& prompt : prompts) requests.push_back(ToJson(prompt));
  Json line = {{"schema", evidence::kSchema}, {"round", round}, {"requests", std::move(requests)}};
  if (phase == Phase::kWarmup) line["phase"] = evidence::Name(phase);
  return base::WriteJsonLine(line) + "\n";
}

}  // namespace

base::Result<CasePrompts> CasePrompts::Open(const plan::ResolvedPlan& plan,
                                            const evidence::Layout& layout,
                                            const PromptSource& source, const plan::Case& of,
                                            load::Tokenizer& tokenizer) {
  CasePrompts prompts(source, of, tokenizer);
  const bool text = of.prompts.kind == plan::PromptKind::kText;
  std::error_code error;
  if (std::filesystem::exists(layout.prompts(of.name), error)) {
    if (text) UG_TRY(prompts.Read(layout));
    return prompts;
  }
  std::string lines;
  const auto make = [&](Phase phase, int round, int count) -> base::Status {
    UG_ASSIGN(auto made, source(of, phase, round, count, tokenizer));
    lines += Line(phase, round, made);
    if (text) prompts.kept_[{phase, round}] = std::move(made);
    return {};
  };
  for (int round = 1; round <= plan.rounds(of); ++round) {
    UG_TRY(make(Phase::kFormal, round, of.requests));
  }
  if (const int warmup = plan.warmup_requests(of); text && warmup > 0) {
    UG_TRY(make(Phase::kWarmup, 1, warmup));
  }
  UG_TRY(evidence::WritePrompts(layout, of.name, lines));
  return prompts;
}

base::Status CasePrompts::Read(const evidence::Layout& layout) {
  const std::filesystem::path path = layout.prompts(case_.name);
  const auto at = [&](base::Error error) {
    return tl::unexpected(base::At(path.string(), std::move(error)));
  };
  const auto compressed = base::ReadFile(path, evidence::kMaxRecordsFileBytes);
  if (!compressed) return at(compressed.error());
  const auto jsonl = base::Decompress(*compressed, evidence::kMaxRecordsBytes);
  if (!jsonl) return at(jsonl.error());
  for (std::string_view rest = *jsonl; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    const auto line = base::ParseJson(rest.substr(0, end));
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    if (!line) return at(line.error());
    const auto round = base::IntMember(*line, "round");
    const auto requests = base::Member(*line, "requests");
    if (!round || !requests) return at(!round ? round.error() : requests.error());
    const Phase phase = line->contains("phase") ? Phase::kWarmup : Phase::kFormal;
    auto& kept = kept_[{phase, static_cast<int>(*round)}];
    for (const Json& item : **requests) {
      auto prompt = FromJson(item, case_.input_tokens);
      if (!prompt) return at(prompt.error());
      kept.push_back(*std::move(prompt));
    }
  }
  return {};
}

base::Result<std::vector<Prompt>> CasePrompts::Of(Phase phase, int round, int count) const {
  if (case_.prompts.kind != plan::PromptKind::kText) {
    return source_(case_, phase, round, count, tokenizer_);
  }
  const auto it = kept_.find({phase, round});
  if (it == kept_.end() || std::ssize(it->second) < count) {
    return base::EvidenceError(
        fmt::format("the prompts of case {} in the evidence do not have {} of round {}", case_.name,
                    count, round));
  }
  return std::vector<Prompt>(it->second.begin(), it->second.begin() + count);
}

}  // namespace upgrade_gate::capture
