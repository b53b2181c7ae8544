#include "framework/load/schedule.h"

#include <cmath>

#include "framework/base/random.h"
#include "framework/base/result.h"

namespace upgrade_gate::load {
namespace {

constexpr double kNsPerSecond = 1e9;

// The moment, in seconds, by which `expected` arrivals are expected: the inverse
// of the rate's integral. Only operations that IEEE 754 rounds correctly, and no
// product beside a sum, which a compiler may fuse.
double MomentOf(double expected, double rate, double ramp) {
  const double in_ramp = rate * (ramp / 2);
  if (expected < in_ramp) return std::sqrt((expected / in_ramp) * ramp * ramp);
  return ramp / 2 + expected / rate;
}

}  // namespace

std::vector<base::Nanoseconds> MakeSchedule(const plan::OpenLoop& open, std::uint64_t seed,
                                            std::string_view purpose, int count) {
  UG_CHECK(open.rate.value > 0 && count >= 0);
  const double ramp = static_cast<double>(open.ramp.count()) / 1000;
  base::Random random(seed, purpose);
  std::vector<base::Nanoseconds> schedule;
  schedule.reserve(static_cast<std::size_t>(count));
  double expected = 0;
  for (int i = 0; i < count; ++i) {
    const bool poisson = open.arrivals == plan::Arrivals::kPoisson;
    if (poisson) expected += random.Exponential();
    const double seconds = MomentOf(poisson ? expected : i, open.rate.value, ramp);
    schedule.emplace_back(static_cast<std::int64_t>(seconds * kNsPerSecond));
  }
  return schedule;
}

}  // namespace upgrade_gate::load
