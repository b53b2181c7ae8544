// Closed-loop load: `concurrency` requests in flight until all have been sent.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/evidence/records.h"
#include "framework/evidence/store.h"
#include "framework/load/completion_request.h"
#include "framework/load/transport.h"

namespace upgrade_gate::load {

struct ClosedLoop {
  std::string url;  // of the completions endpoint
  int concurrency = 1;
  std::chrono::milliseconds request_timeout = std::chrono::minutes(10);
  std::chrono::milliseconds stall_limit = std::chrono::seconds(120);
  // How long a socket may stay open after [DONE]; data in that time is a fault.
  std::chrono::milliseconds linger_limit{250};
  // Stops sending after so many failures in a row; absent: never.
  std::optional<int> consecutive_failures;
  int failures_in_a_row = 0;  // carried over from the case's last round
};

struct LoadResult {
  std::vector<evidence::RequestRecord> requests;  // those that were sent, by index
  std::vector<evidence::RawStream> failed_streams;
  base::Nanoseconds duration{};  // from the first scheduled moment to the last end
  evidence::StopReason stopped = evidence::StopReason::kNone;
  std::string stop_detail;
  int failures_in_a_row = 0;  // at the end
  int new_connections = 0;
};

// Asked between events, at least every 100 ms: a reason other than kNone ends
// the load at once; what is in flight is cancelled and, with the exception of
// kInterrupted, recorded as failed (transport).
struct StopSignal {
  evidence::StopReason reason = evidence::StopReason::kNone;
  std::string detail;
};
using StopCheck = std::function<StopSignal()>;

// Sends `requests` in order. The whole load runs on the calling thread.
base::Result<LoadResult> RunClosedLoop(Transport& transport, base::Clock& clock, const ClosedLoop& load,
                                       const std::vector<PreparedRequest>& requests,
                                       const StopCheck& should_stop);

}  // namespace upgrade_gate::load
