#include "framework/load/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/load/quote.h"

namespace upgrade_gate::load {

void ToolCalls::Problem(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
}

std::string ToolCalls::Add(const ToolCallPiece& piece) {
  bytes_ += piece.id.size() + piece.name.size() + piece.arguments.size();
  if (bytes_ > most_bytes_) return fmt::format("tool calls over {} bytes", most_bytes_);
  const auto call = std::find_if(calls_.begin(), calls_.end(), [&](const Call& each) {
    return each.choice == piece.choice && each.index == piece.index;
  });
  if (call == calls_.end()) {
    if (calls_.size() == most_calls_) return fmt::format("more than {} tool calls", most_calls_);
    calls_.push_back({piece.choice, piece.index, std::string(piece.id), std::string(piece.name),
                      std::string(piece.arguments)});
    return {};
  }
  Take(*call, call->id, piece.id, "id");
  Take(*call, call->name, piece.name, "name");
  call->arguments.append(piece.arguments);
  return {};
}

void ToolCalls::Take(const Call& call, std::string& have, std::string_view got, const char* what) {
  if (have.empty()) have = got;
  if (got.empty() || got == have) return;
  Problem(fmt::format("two {}s at tool call index {}: {} and {}", what, call.index, Quote(have),
                      Quote(got)));
}

void ToolCalls::Finish() {
  for (const Call& call : calls_) {
    const auto problem = [&](std::string_view what) {
      Problem(fmt::format("tool call {}{}: {}", call.index,
                          call.name.empty() ? "" : " " + Quote(call.name), what));
    };
    if (call.name.empty()) problem("has no name");
    if (call.id.empty()) problem("has no id");
    if (call.arguments.empty()) {
      any_without_arguments_ = true;
      continue;
    }
    const auto value = base::ParseJson(call.arguments);
    if (!value) {
      problem(fmt::format("arguments {} are not JSON ({})", Quote(call.arguments),
                          base::Shorten(base::Visible(value.error().message), kQuoteBytes)));
    } else if (!value->is_object()) {
      problem(fmt::format("arguments {} are not an object", Quote(call.arguments)));
    }
  }
}

void ToolCalls::Clear() {
  calls_.clear();
  bytes_ = 0;
  problem_.clear();
  any_without_arguments_ = false;
}

}  // namespace upgrade_gate::load
