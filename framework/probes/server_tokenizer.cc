#include "framework/probes/server_tokenizer.h"

#include <fmt/format.h>

#include <chrono>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/probes/fetch.h"

namespace upgrade_gate::probes {
namespace {

constexpr std::chrono::seconds kAnswerLimit{30};

std::string Shown(std::string_view text) {
  return base::Shorten(base::Visible(text.substr(0, 4096)), 200);
}

base::Error Wrong(const std::string& path, const std::string& body) {
  return {base::ErrorKind::kInfrastructure, path + " gave something else: " + Shown(body)};
}

}  // namespace

base::Result<std::string> ServerTokenizer::Ask(const std::string& path, const std::string& body) {
  UG_ASSIGN(Fetched fetched, Fetch(transport_, clock_, url_ + path, clock_.now() + kAnswerLimit,
                                   interrupted_, body));
  if (fetched.status == 200) return std::move(fetched.body);
  return base::InfrastructureError(fmt::format(
      "{}: {}; prompts {{kind: text}} need a server with /tokenize and /detokenize", path,
      fetched.status ? fmt::format("HTTP {} {}", *fetched.status, Shown(fetched.body))
                     : fetched.problem));
}

base::Result<load::TokenIds> ServerTokenizer::Encode(const std::string& text,
                                                     load::SpecialTokens special) {
  const std::string path = "/tokenize";
  UG_ASSIGN(const std::string body,
            Ask(path, base::WriteJsonLine(
                          {{"model", served_name_},
                           {"prompt", text},
                           {"add_special_tokens", special == load::SpecialTokens::kAdd}})));
  const auto json = base::ParseJson(body);
  if (!json || !json->is_object() || !json->contains("tokens") || !(*json)["tokens"].is_array()) {
    return tl::unexpected(Wrong(path, body));
  }
  load::TokenIds ids;
  for (const base::Json& item : (*json)["tokens"]) {
    if (!item.is_number_unsigned()) return tl::unexpected(Wrong(path, body));
    ids.push_back(item.get<std::int64_t>());
  }
  return ids;
}

base::Result<std::string> ServerTokenizer::Decode(const load::TokenIds& ids) {
  const std::string path = "/detokenize";
  UG_ASSIGN(const std::string body,
            Ask(path, base::WriteJsonLine({{"model", served_name_}, {"tokens", ids}})));
  const auto json = base::ParseJson(body);
  const auto text = json && json->is_object() ? base::StringMember(*json, "prompt")
                                              : base::Result<std::string>(base::EvidenceError(""));
  if (!text) return tl::unexpected(Wrong(path, body));
  return *text;
}

}  // namespace upgrade_gate::probes
