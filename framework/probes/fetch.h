// One GET or POST over a Transport, whole body in memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/load/transport.h"

namespace upgrade_gate::probes {

inline constexpr std::size_t kFetchBodyCap = std::size_t{4} << 20;
// `give_up` is asked at least this often.
inline constexpr std::chrono::milliseconds kAskEvery{50};

struct Fetched {
  std::optional<int> status;  // absent: no whole response, and `problem` says why
  std::string body;
  std::string problem;
};

// A POST if there is a body, which is JSON. An error is the transport's own; a
// server that refuses or hangs is a Fetched.
base::Result<Fetched> Fetch(load::Transport& transport, base::Clock& clock, const std::string& url,
                            base::Instant until, const std::function<bool()>& give_up,
                            const std::string& json_body = {});

}  // namespace upgrade_gate::probes
