#include "framework/capture/watched_server.h"

#include <utility>

namespace upgrade_gate::capture {

using evidence::StopReason;

std::optional<Loss> WatchedServer::Lost() const {
  const auto exit = server->exited();
  if (exit && exit->by_engine) {
    return Loss{StopReason::kInfrastructure, exit->description};
  }
  if (const auto fault = log->fault()) {
    return Loss{StopReason::kServiceLost, server::Describe(*fault)};
  }
  if (exit) return Loss{StopReason::kServiceLost, "the server ended: " + exit->description};
  return std::nullopt;
}

std::vector<evidence::Fact> WatchedServer::Facts() const {
  std::map<std::string, evidence::Fact> facts;
  for (const evidence::Fact& fact : probed) facts.try_emplace(fact.name, fact);
  for (evidence::Fact& fact : log->Facts(answers)) {
    const std::string name = fact.name;
    facts.try_emplace(name, std::move(fact));
  }
  std::vector<evidence::Fact> list;
  for (auto& [name, fact] : facts) list.push_back(std::move(fact));
  return list;
}

}  // namespace upgrade_gate::capture
