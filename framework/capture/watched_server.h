// A started server and what its log and endpoints have told of it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/evidence/records.h"
#include "framework/server/launcher.h"
#include "framework/server/log_rules.h"

namespace upgrade_gate::capture {

// Why a server cannot go on.
struct Loss {
  // kServiceLost: the server's own doing, as far as anybody knows, and what failed by it
  // counts. kInfrastructure: what runs it ended it.
  evidence::StopReason reason = evidence::StopReason::kServiceLost;
  std::string why;
};

struct WatchedServer {
  std::unique_ptr<server::RunningServer> server;
  std::shared_ptr<server::LogWatcher> log;
  std::map<std::string, server::Answer> answers;
  std::vector<evidence::Fact> probed;  // by the plan's commands

  // Nothing: it goes on. A fatal line says more than the exit that follows it.
  std::optional<Loss> Lost() const;
  // By name; what a command of the plan says stands above what a rule found.
  std::vector<evidence::Fact> Facts() const;
};

}  // namespace upgrade_gate::capture
