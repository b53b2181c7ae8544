#include "framework/cli/load_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "framework/base/text.h"
#include "framework/cli/terminal.h"

namespace upgrade_gate::cli {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kPlainLine{10};
constexpr std::chrono::seconds kRateOver{1};

double Seconds(base::Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::optional<double> SecondsLeft(const LoadMoment& moment) {
  if (moment.lasts) return std::max(0.0, Seconds(*moment.lasts - moment.elapsed));
  if (!moment.planned || moment.ended == 0) return std::nullopt;
  return Seconds(moment.elapsed) * static_cast<double>(*moment.planned - moment.ended) /
         static_cast<double>(moment.ended);
}

}  // namespace

std::string DescribeMoment(const LoadMoment& moment) {
  std::string line = moment.part + ": " + base::WithThousands(moment.ended);
  if (moment.planned) line += " of " + base::WithThousands(*moment.planned);
  line += fmt::format(" ended, {} failed, {} in flight", base::WithThousands(moment.failed),
                      base::WithThousands(moment.sent - moment.ended));
  if (moment.chunks_per_s) {
    line += fmt::format(", {} chunks/s", base::WithThousands(std::llround(*moment.chunks_per_s)));
  }
  const auto left = SecondsLeft(moment);
  if (left) line += fmt::format(", {} s left", base::WithThousands(std::llround(*left)));
  return line;
}

LoadProgress::LoadProgress(base::Clock& clock, const load::Progress& progress, LoadMoment part)
    : clock_(clock),
      progress_(progress),
      part_(std::move(part)),
      live_(IsLive(stderr)),
      began_(clock.now()),
      sampled_(began_),
      thread_([this] { Show(); }) {}

LoadProgress::~LoadProgress() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

LoadMoment LoadProgress::Now() {
  LoadMoment moment = part_;
  const base::Instant now = clock_.now();
  moment.elapsed = now - began_;
  moment.ended = progress_.ended;  // before `sent`: what is in flight is never negative
  moment.failed = progress_.failed;
  moment.sent = progress_.sent;
  if (now - sampled_ >= kRateOver) {
    const std::int64_t chunks = progress_.chunks;
    rate_ = static_cast<double>(chunks - std::exchange(sampled_chunks_, chunks)) /
            Seconds(now - std::exchange(sampled_, now));
  }
  moment.chunks_per_s = rate_;
  return moment;
}

void LoadProgress::Show() {
  std::unique_lock lock(mutex_);
  const base::Nanoseconds every = live_ ? base::Nanoseconds(kRedraw) : kPlainLine;
  while (!ends_.wait_for(lock, every, [this] { return over_; })) {
    const std::string line = DescribeMoment(Now());
    if (live_) {
      // All characters are of one byte and one column.
      fmt::print(stderr, "\r{}\x1b[K", line.substr(0, WidthOf(stderr) - 1));
    } else {
      fmt::print(stderr, "{}\n", line);
    }
    std::fflush(stderr);
  }
  if (live_) fmt::print(stderr, "\r\x1b[K");
  fmt::print(stderr, "{}\n", DescribeMoment(Now()));
}

}  // namespace upgrade_gate::cli
