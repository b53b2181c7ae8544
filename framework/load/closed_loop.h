// Closed-loop load: `concurrency` requests in flight until all have been sent.
//
// A request's latency starts when its slot became free: at the end of the
// response before it, as the transport delivered it. Runs on the calling thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/evidence/records.h"
#include "framework/evidence/store.h"
#include "framework/load/completion_request.h"
#include "framework/load/response_reader.h"
#include "framework/load/transport.h"

namespace upgrade_gate::load {

struct ClosedLoop {
  std::string url;  // of the completions endpoint
  int concurrency = 1;
  // From the moment a request is sent to the end of its response.
  std::chrono::milliseconds request_timeout = std::chrono::minutes(10);
  // The longest time without a byte.
  std::chrono::milliseconds stall_limit = std::chrono::seconds(120);
  // How long a socket may stay open after [DONE]; data in that time is a fault.
  std::chrono::milliseconds linger_limit{250};
  // Stops sending after so many failures in a row, in the order in which the
  // responses end; what is in flight runs to its end. Absent: never.
  std::optional<int> consecutive_failures;
  int failures_in_a_row = 0;  // carried over from the case's last round
  ReaderCaps caps;
  plan::KeepStreams keep_streams = plan::KeepStreams::kFailed;
  // Where raw bytes go while the load runs; null: memory. An error of it ends the load.
  std::shared_ptr<evidence::Spool> spool;
};

struct LoadResult {
  std::vector<evidence::RequestRecord> requests;  // those that were sent, by index
  std::vector<evidence::RawStream> streams;       // of the failed, or of all; by index
  base::Nanoseconds duration{};                   // from the first scheduled moment to the last end
  evidence::StopReason stopped = evidence::StopReason::kNone;
  std::string stop_detail;
  int failures_in_a_row = 0;  // at the end
  int new_connections = 0;    // of responses that ended by themselves
};

// Asked between events, at least every 100 ms: a reason other than kNone ends
// the load at once; what is in flight is cancelled and, with the exception of
// kInterrupted, recorded as failed (transport).
struct StopSignal {
  evidence::StopReason reason = evidence::StopReason::kNone;
  std::string detail;
};
using StopCheck = std::function<StopSignal()>;

// Sends `requests` in order; `concurrency` is at least 1. An error is ours: the
// transport itself failed, and nothing was measured.
base::Result<LoadResult> RunClosedLoop(Transport& transport, base::Clock& clock,
                                       const ClosedLoop& load,
                                       const std::vector<PreparedRequest>& requests,
                                       const StopCheck& should_stop);

}  // namespace upgrade_gate::load
