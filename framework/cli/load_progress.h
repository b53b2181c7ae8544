// Where a running load test stands, on standard error: a line that is drawn over
// itself at a terminal, a plain line now and then elsewhere.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "framework/base/clock.h"
#include "framework/load/driver.h"

namespace upgrade_gate::cli {

// A moment of a load.
struct LoadMoment {
  std::string part;  // "warm-up", "round 1/3"
  std::int64_t sent = 0, ended = 0, failed = 0;
  std::optional<std::int64_t> planned;     // absent: as many as the duration allows
  std::optional<base::Nanoseconds> lasts;  // the duration asked for
  base::Nanoseconds elapsed{};             // since the part began
  std::optional<double> chunks_per_s;      // of late; absent: too early to say
};
// "round 1/3: 120 of 960 ended, 3 failed, 32 in flight, 1,830 chunks/s, 40 s left". Pure.
std::string DescribeMoment(const LoadMoment& moment);

// Shows one part of the load from its construction to its destruction, on a
// thread of its own, so that a terminal that blocks does not hold up the load.
class LoadProgress {
 public:
  // The clock and the progress must outlive it.
  LoadProgress(base::Clock& clock, const load::Progress& progress, LoadMoment part);
  ~LoadProgress();
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;

 private:
  void Show();
  LoadMoment Now();

  base::Clock& clock_;
  const load::Progress& progress_;
  const LoadMoment part_;
  const bool live_;
  const base::Instant began_;
  base::Instant sampled_;  // the rate is taken from here
  std::int64_t sampled_chunks_ = 0;
  std::optional<double> rate_;

  std::mutex mutex_;
  std::condition_variable ends_;
  bool over_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace upgrade_gate::cli
