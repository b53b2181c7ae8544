// Ready means one validated generation, not an answering /health.
//
// Runs on the calling thread and waits in the transport or on the clock only.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/load/transport.h"
#include "framework/plan/plan.h"
#include "framework/server/launcher.h"

namespace upgrade_gate::probes {

struct ReadinessSpec {
  std::string served_name;
  plan::Sampling sampling;
  plan::Prompts prompts;  // the range of token ids to draw from
  plan::Api api = plan::Api::kCompletions;
  plan::Acceptance acceptance = plan::Acceptance::kStrict;
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // of all stages together
  plan::StageLimits limits;                                      // but the pull's
  std::chrono::milliseconds retry_every{100};
  std::chrono::milliseconds heartbeat_every = std::chrono::seconds(30);
  // What the log says that the server will not recover from; empty: nothing. Asked often.
  std::function<std::string()> fault = [] { return std::string(); };
  // False while a line that the log rules wait for has not come.
  std::function<bool()> log_ready = [] { return true; };
};

struct Ready {
  base::Nanoseconds after{};  // from the call to the validated generation
  std::string version;        // of /version; empty: it has none
  // "boot": something answers HTTP; "load": /health and the model listed; "ready":
  // an accepted generation. How long each took.
  std::vector<std::pair<std::string, base::Nanoseconds>> stages;
};

// Waits for /health, then /v1/models listing the served name, then an accepted
// short generation, then a line of the log where the rules name one, then proves
// that the server is ours.
//
// Waited for until `timeout`: no connection, any status of /health but 200, an
// empty list of models, and a generation that ends in a broken connection, 408,
// 425, 429 or 5xx, as servers do while they load; each stage at most for its own
// limit. Fails at once when the server exits, when its log has a fatal line, when it serves other
// models, when it refuses the request (another 4xx), and when `interrupted` says so. Ten
// generations in a row that come with HTTP 200 and are not acceptable fail too: such a server is up
// and cannot answer.
//
// An error carries the stage, the argv, the exit and the last log lines.
base::Result<Ready> WaitUntilReady(load::Transport& transport, base::Clock& clock,
                                   server::RunningServer& server, const ReadinessSpec& spec,
                                   const std::function<void(const std::string&)>& heartbeat,
                                   const std::function<bool()>& interrupted);

}  // namespace upgrade_gate::probes
