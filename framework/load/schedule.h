// When the requests of an open loop should be sent: pure, one seed one schedule.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/base/clock.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::load {

// `count` offsets from the start, ascending. The purpose tells apart the streams
// of one seed ("case open-0.3 round 2"); constant arrivals draw nothing and begin
// at 0. While the ramp lasts the rate grows evenly from 0 to `rate`.
// The same bytes under any compiler and standard library.
std::vector<base::Nanoseconds> MakeSchedule(const plan::OpenLoop& open, std::uint64_t seed,
                                            std::string_view purpose, int count);

}  // namespace upgrade_gate::load
