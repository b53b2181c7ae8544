// Drives one load: which request is sent when, and what came of it.
//
// Closed loop: `concurrency` requests in flight until all have been sent. A
// request's latency starts when its slot became free: at the end of the response
// before it, as the transport delivered it.
// Open loop: each request at its scheduled time, whatever became of the others.
// Its latency starts at that time, so that a stall of the server, or of the
// client, is in it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
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

// How far a running load is. The load writes, any thread may read; only for people.
struct Progress {
  std::atomic<std::int64_t> sent = 0, ended = 0, failed = 0;
  std::atomic<std::int64_t> chunks = 0;  // events that carried output
};

struct Load {
  std::string url;  // of the completions endpoint
  // Closed loop: requests kept in flight. Open loop: the most that may be; one
  // that finds no place is sent late and counted (ClientHealth::held_back).
  int concurrency = 1;
  // Open loop: when to send each request, from the start, ascending (MakeSchedule).
  // Absent: closed loop.
  std::optional<std::vector<base::Nanoseconds>> schedule;
  // Closed loop: the slots come in one after another, evenly over it.
  base::Nanoseconds ramp{};
  // Nothing is sent that is due this long after the start; what is in flight then
  // runs to its end. Absent: until all are sent.
  std::optional<base::Nanoseconds> duration;
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
  bool keep_gaps = false;        // LoadResult::gaps_ms
  Progress* progress = nullptr;  // outlives the load; may be null
  plan::KeepStreams keep_streams = plan::KeepStreams::kFailed;
  // Where raw bytes wait while the load runs, in an unnamed file a shard; absent:
  // in memory. An error of it ends the load.
  std::optional<std::filesystem::path> spool_folder;
  // A secret that was sent (CurlOptions::bearer_token): where a server echoes it,
  // the evidence of the failure shows stars. Empty: none.
  std::string redact;
};

struct LoadResult {
  std::vector<evidence::RequestRecord> requests;  // those that were sent, by index
  std::vector<evidence::RawStream> streams;       // of the failed, or of all; by index
  // With Load::keep_gaps, for each of `requests`: milliseconds from one event that
  // carried output to the next; 0 between those that came in one read.
  std::vector<std::vector<float>> gaps_ms;
  base::Nanoseconds duration{};  // from the first scheduled moment to the last end
  evidence::StopReason stopped = evidence::StopReason::kNone;
  std::string stop_detail;
  int failures_in_a_row = 0;  // at the end
  evidence::ClientHealth client;
};

// Asked between events, at least every 100 ms, on the calling thread: a reason
// other than kNone ends the load at once; what is in flight is cancelled and, with
// the exception of kInterrupted, recorded as failed (transport).
struct StopSignal {
  evidence::StopReason reason = evidence::StopReason::kNone;
  std::string detail;
};
using StopCheck = std::function<StopSignal()>;

// Sends `requests` in order; `concurrency` is at least 1, a schedule has a time
// for each request. The load is dealt out over all of the transports (ShardsFor says
// how many to give), each on a thread of its own but for the first, which is the
// caller's. An error is ours: a
// transport itself failed, and nothing was measured. Nothing is in flight after.
base::Result<LoadResult> RunLoad(std::span<Transport* const> transports, base::Clock& clock,
                                 const Load& load, const std::vector<PreparedRequest>& requests,
                                 const StopCheck& should_stop);
base::Result<LoadResult> RunLoad(Transport& transport, base::Clock& clock, const Load& load,
                                 const std::vector<PreparedRequest>& requests,
                                 const StopCheck& should_stop);

}  // namespace upgrade_gate::load
