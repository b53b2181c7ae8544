#include "framework/probes/server_facts.h"

#include <fmt/format.h>

#include <utility>

#include "framework/probes/fetch.h"

namespace upgrade_gate::probes {
namespace {

constexpr std::chrono::seconds kLimit{10};

server::Answer Ask(load::Transport& transport, base::Clock& clock, const std::string& url,
                   const std::function<bool()>& give_up) {
  auto fetched = Fetch(transport, clock, url, clock.now() + kLimit, give_up);
  if (!fetched) return {std::nullopt, fetched.error().message};
  if (!fetched->status) return {std::nullopt, fetched->problem};
  if (*fetched->status != 200) return {std::nullopt, fmt::format("answered {}", *fetched->status)};
  return {std::move(fetched->body), ""};
}

}  // namespace

std::map<std::string, server::Answer> AskEndpoints(load::Transport& transport, base::Clock& clock,
                                                   const std::string& url,
                                                   const std::vector<std::string>& paths,
                                                   const std::function<bool()>& give_up) {
  std::map<std::string, server::Answer> answers;
  for (const std::string& path : paths) {
    answers[path] = Ask(transport, clock, url + path, give_up);
  }
  return answers;
}

}  // namespace upgrade_gate::probes
