// What the shards of one load know of each other: when to stop, and why.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "framework/base/clock.h"
#include "framework/evidence/records.h"
#include "framework/load/driver.h"

namespace upgrade_gate::load {

// How often somebody looks whether the load is to end.
inline constexpr std::chrono::milliseconds kStopCheckEvery{50};

// Thread-safe.
class LoadControl {
 public:
  LoadControl(const Load& load, base::Instant start);

  base::Instant start() const { return start_; }
  bool may_send() const { return !stopped_; }
  bool ended() const { return ended_; }
  StopSignal why() const;
  int failures_in_a_row() const;

  // Every request that ended: the guard counts over all shards.
  void Count(const evidence::RequestRecord& record);
  void End(StopSignal why);

  void ShardEnded();
  // True once that many shards have ended; false after a while without.
  bool WaitFor(std::size_t shards);

 private:
  void Stop(StopSignal why);

  const base::Instant start_;
  const Load& load_;
  mutable std::mutex mutex_;
  int failures_in_a_row_;
  StopSignal why_;
  std::atomic<bool> stopped_ = false;  // nothing more is sent
  std::atomic<bool> ended_ = false;    // nor waited for
  std::size_t shards_ended_ = 0;
  std::condition_variable shard_ended_;
};

}  // namespace upgrade_gate::load
