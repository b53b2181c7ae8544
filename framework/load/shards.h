// How a load is split over threads, each with a transport of its own.
#pragma once

#include <algorithm>
#include <cstddef>

namespace upgrade_gate::load {

// One multi handle slows with its connections (measured: 24, 44, 89 µs a request
// with 64, 1,000, 4,000 of them), and one thread takes about 30,000 events/s well.
inline constexpr int kStreamsAShard = 250;

// Transports for that many requests in flight; at least 1.
inline std::size_t ShardsFor(int streams) {
  return static_cast<std::size_t>(std::max(1, (streams + kStreamsAShard - 1) / kStreamsAShard));
}
// What the shard takes of `total`; the shares differ by 1 at most and add up.
inline int ShareOf(int total, std::size_t shard, std::size_t shards) {
  const int count = static_cast<int>(shards);
  return total / count + (static_cast<int>(shard) < total % count ? 1 : 0);
}

}  // namespace upgrade_gate::load
