#include "framework/load/driver.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "framework/load/load_control.h"
#include "framework/load/shard.h"
#include "framework/load/shards.h"

namespace upgrade_gate::load {
namespace {

using evidence::StopReason;

// Requests a second from the first to the last, by one of their stamps.
std::optional<double> RateOf(const std::vector<evidence::RequestRecord>& requests,
                             std::optional<base::Nanoseconds> evidence::RequestTimes::*stamp) {
  base::Nanoseconds first = base::Nanoseconds::max();
  base::Nanoseconds last = base::Nanoseconds::min();
  for (const auto& request : requests) {
    first = std::min(first, (request.times.*stamp).value_or(first));
    last = std::max(last, (request.times.*stamp).value_or(last));
  }
  if (last <= first) return std::nullopt;
  return static_cast<double>(requests.size() - 1) /
         std::chrono::duration<double>(last - first).count();
}

// At most 1 % are above it, and at least one where there are several.
base::Nanoseconds P99(std::vector<base::Nanoseconds> values) {
  if (values.empty()) return {};
  std::size_t rank = (99 * values.size() + 99) / 100;
  if (values.size() > 1) rank = std::min(rank, values.size() - 1);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

LoadResult Merge(const Load& load, const LoadControl& control, std::vector<ShardResult> shards) {
  LoadResult result;
  evidence::ClientHealth& client = result.client;
  std::vector<base::Nanoseconds> lags;
  std::vector<std::pair<int, std::vector<float>>> gaps_ms;
  client.threads = static_cast<int>(shards.size());
  for (ShardResult& shard : shards) {
    std::move(shard.requests.begin(), shard.requests.end(), std::back_inserter(result.requests));
    std::move(shard.streams.begin(), shard.streams.end(), std::back_inserter(result.streams));
    result.duration = std::max(result.duration, shard.last_end - control.start());
    lags.insert(lags.end(), shard.lags.begin(), shard.lags.end());
    std::move(shard.gaps_ms.begin(), shard.gaps_ms.end(), std::back_inserter(gaps_ms));
    const evidence::ClientHealth& part = shard.client;
    if (part.delivered) client.delivered = client.delivered.value_or(0) + *part.delivered;
    client.held_back += part.held_back;
    client.reads += part.reads;
    client.inexact_reads += part.inexact_reads;
    client.unstamped_reads += part.unstamped_reads;
    client.cpu_share = std::max(client.cpu_share, part.cpu_share);
    client.new_connections += part.new_connections;
    client.connect_max = std::max(client.connect_max, part.connect_max);
    client.retransmits += part.retransmits;
  }
  const auto by_index = [](const auto& a, const auto& b) { return a.index < b.index; };
  std::sort(result.requests.begin(), result.requests.end(), by_index);
  std::sort(result.streams.begin(), result.streams.end(), by_index);

  std::sort(gaps_ms.begin(), gaps_ms.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [index, gaps] : gaps_ms) result.gaps_ms.push_back(std::move(gaps));

  std::vector<base::Nanoseconds> late;
  for (const auto& request : result.requests) {
    late.push_back(*request.times.sent - *request.times.scheduled);
  }
  client.send_late_p99 = P99(std::move(late));
  client.lag_p99 = P99(std::move(lags));
  client.open_loop = load.schedule.has_value();
  client.asked = load.concurrency;
  if (client.open_loop) {
    client.asked = RateOf(result.requests, &evidence::RequestTimes::scheduled).value_or(0);
    client.delivered = RateOf(result.requests, &evidence::RequestTimes::sent);
  }
  const StopSignal why = control.why();
  result.stopped = why.reason;
  result.stop_detail = why.detail;
  result.failures_in_a_row = control.failures_in_a_row();
  return result;
}

}  // namespace

base::Result<LoadResult> RunLoad(std::span<Transport* const> transports, base::Clock& clock,
                                 const Load& load, const std::vector<PreparedRequest>& requests,
                                 const StopCheck& should_stop) {
  UG_CHECK(load.concurrency >= 1 && !transports.empty());
  UG_CHECK(!load.schedule || load.schedule->size() >= requests.size());
  const std::size_t shards =
      std::min(transports.size(), static_cast<std::size_t>(load.concurrency));
  LoadControl control(load, clock.now());
  std::vector<base::Result<ShardResult>> results(shards);
  const auto run = [&](std::size_t shard, const StopCheck& check) {
    results[shard] =
        Shard(*transports[shard], clock, load, requests, control, shard, shards).Run(check);
    // The others need not go on: nothing will have been measured.
    if (!results[shard]) control.End({StopReason::kInterrupted, results[shard].error().message});
    control.ShardEnded();
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < shards; ++i) threads.emplace_back(run, i, StopCheck());
    run(0, should_stop);
    // The slower shards are still to be stopped when the caller says so.
    while (!control.WaitFor(shards)) {
      if (StopSignal signal = should_stop ? should_stop() : StopSignal{};
          signal.reason != StopReason::kNone && !control.ended()) {
        control.End(std::move(signal));
      }
    }
  }
  std::vector<ShardResult> parts;
  for (auto& result : results) {
    if (!result) return tl::unexpected(std::move(result).error());
    parts.push_back(std::move(*result));
  }
  return Merge(load, control, std::move(parts));
}

base::Result<LoadResult> RunLoad(Transport& transport, base::Clock& clock, const Load& load,
                                 const std::vector<PreparedRequest>& requests,
                                 const StopCheck& should_stop) {
  Transport* const one = &transport;
  return RunLoad(std::span(&one, 1), clock, load, requests, should_stop);
}

}  // namespace upgrade_gate::load
