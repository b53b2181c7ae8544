#include "framework/load/load_control.h"

#include <fmt/format.h>

#include <utility>

namespace upgrade_gate::load {

using evidence::StopReason;

LoadControl::LoadControl(const Load& load, base::Instant start)
    : start_(start), load_(load), failures_in_a_row_(load.failures_in_a_row) {
  if (load.consecutive_failures && failures_in_a_row_ >= *load.consecutive_failures) {
    Stop({StopReason::kGuard,
          fmt::format("{} failures in a row before this round", failures_in_a_row_)});
  }
}

StopSignal LoadControl::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

int LoadControl::failures_in_a_row() const {
  const std::lock_guard lock(mutex_);
  return failures_in_a_row_;
}

void LoadControl::Count(const evidence::RequestRecord& record) {
  const std::lock_guard lock(mutex_);
  failures_in_a_row_ = record.accepted() ? 0 : failures_in_a_row_ + 1;
  if (!load_.consecutive_failures || failures_in_a_row_ < *load_.consecutive_failures) return;
  Stop({StopReason::kGuard,
        fmt::format("{} failures in a row, the last of them {} ({})", failures_in_a_row_,
                    evidence::Name(record.failure->kind), record.failure->detail)});
}

void LoadControl::End(StopSignal why) {
  const std::lock_guard lock(mutex_);
  // A guard that has tripped meanwhile does not hide why the load ended.
  if (!ended_) stopped_ = false;
  Stop(std::move(why));
  ended_ = true;
}

void LoadControl::ShardEnded() {
  const std::lock_guard lock(mutex_);
  ++shards_ended_;
  shard_ended_.notify_one();
}

bool LoadControl::WaitFor(std::size_t shards) {
  std::unique_lock lock(mutex_);
  return shard_ended_.wait_for(lock, kStopCheckEvery, [&] { return shards_ended_ == shards; });
}

void LoadControl::Stop(StopSignal why) {
  if (stopped_) return;
  why_ = std::move(why);
  stopped_ = true;
}

}  // namespace upgrade_gate::load
