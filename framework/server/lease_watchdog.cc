#include "framework/server/lease_watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "framework/base/clock.h"
#include "framework/base/text.h"
#include "framework/server/forked_child.h"
#include "framework/server/watchdog_end.h"

namespace upgrade_gate::server {
namespace {

using State = LeaseJudge::State;
using std::chrono::milliseconds;

constexpr milliseconds kAskEvery{100};
constexpr milliseconds kFirstCleaningLimit{10'000};

std::string Seconds(base::Nanoseconds time) {
  return fmt::format("{:.0f} s", std::chrono::duration<double>(time).count());
}

// Reads on and on, on a thread that nobody waits for.
class Reader {
 public:
  static base::Result<std::shared_ptr<Reader>> Start(const LeaseWatch& watch) {
    const auto reader = std::make_shared<Reader>();
    try {
      const SignalsBlocked blocked;
      std::thread([reader, read = watch.read, pause = watch.heartbeat] {
        while (!reader->Put(read(), pause)) {
        }
      }).detach();
    } catch (const std::system_error& error) {
      return base::InfrastructureError(std::string("cannot start a thread: ") + error.what());
    }
    return reader;
  }

  std::optional<base::Result<std::string>> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(read_, std::nullopt);
  }
  void Stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

 private:
  // True once it is to stop.
  bool Put(base::Result<std::string> read, milliseconds pause) {
    std::unique_lock lock(mutex_);
    read_ = std::move(read);
    return changed_.wait_for(lock, pause, [&] { return stopped_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<base::Result<std::string>> read_;
  bool stopped_ = false;
};

// Says what changed, and no line twice.
class Speaker {
 public:
  Speaker(const LeaseWatch& watch, const LeaseJudge& judge) : watch_(watch), judge_(judge) {}

  void Tell(State state) {
    std::string line;
    if (state == State::kWaiting) {
      if (judge_.problem() == problem_) return;
      problem_ = judge_.problem();
      line = fmt::format("{}: waiting for the lease: {}", watch_.lease, problem_);
    } else if (state == State::kOverdue && last_ != State::kOverdue) {
      line = fmt::format("{}: not renewed for {}{}; the run's things here are ended when it is {}",
                         watch_.lease, Seconds(judge_.unrenewed()),
                         judge_.problem().empty() ? "" : " (" + judge_.problem() + ")",
                         Seconds(watch_.judge.grace));
    } else if (state == State::kRenewed && last_ != State::kRenewed) {
      line = fmt::format("{}: {}", watch_.lease,
                         last_ == State::kOverdue ? "renewed again" : "seen, and renewed");
    }
    last_ = state;
    if (!line.empty()) watch_.say(line);
  }

 private:
  const LeaseWatch& watch_;
  const LeaseJudge& judge_;
  std::string problem_ = judge_.problem();
  State last_ = State::kWaiting;
};

base::Status End(const LeaseWatch& watch, const std::string& why) {
  const std::string& run = watch.judge.run_id;
  watch.say(fmt::format("run {}: {}: ending what is left of it here", run, why));
  std::set<ListedCleaner> all;
  for (const auto& [name, cleaner] : watch.cleaners) {
    all.insert({name, run});
    // What it cannot do is tried again, and told, by EndRun. Before anything is killed,
    // for one of the run's processes may be the job that this watchdog is in: a batch
    // system ends all of a job, and us, with its first process.
    [[maybe_unused]] const base::Status first = cleaner(run, kFirstCleaningLimit);
  }
  const Ended ended = EndRun(run, {}, all, watch.cleaners);
  if (!ended.problems.empty()) {
    return base::InfrastructureError(fmt::format("run {}: not all of it could be ended: {}", run,
                                                 base::JoinList(ended.problems)));
  }
  watch.say(fmt::format("run {}: nothing of it is left here; {} processes were killed", run,
                        ended.killed));
  return {};
}

}  // namespace

base::Status WatchLease(const LeaseWatch& watch) {
  base::SystemClock clock;
  LeaseJudge judge(watch.judge, clock.now());
  Speaker speaker(watch, judge);
  UG_ASSIGN(const std::shared_ptr<Reader> reader, Reader::Start(watch));
  const std::string& run = watch.judge.run_id;
  watch.say(
      fmt::format("run {}: looking at {} every {}; what is left of the run here is ended "
                  "once that is not renewed for {}",
                  run, watch.lease, Seconds(watch.heartbeat), Seconds(watch.judge.grace)));
  for (;;) {
    if (watch.told_to_end()) {
      reader->Stop();
      return End(watch, "the watchdog was told to end");
    }
    const State state = judge.Take(reader->Take(), clock.now());
    speaker.Tell(state);
    if (state != State::kWaiting && state != State::kRenewed && state != State::kOverdue) {
      reader->Stop();
    }
    switch (state) {
      case State::kWaiting:
      case State::kRenewed:
      case State::kOverdue:
        clock.SleepUntil(clock.now() + std::min(kAskEvery, watch.heartbeat));
        continue;
      case State::kOver:
        return End(watch, "it is over");
      case State::kDeadline:
        return End(watch, "its deadline has passed");
      case State::kStalled:
        return End(watch,
                   fmt::format("the lease was not renewed for {}{}", Seconds(judge.unrenewed()),
                               judge.problem().empty() ? "" : ": " + judge.problem()));
      case State::kNeverSeen:
        return base::InfrastructureError(fmt::format(
            "{}: no lease of run {} within {}: {}; nothing was ended: see that the capture runs "
            "and that this node sees its folder",
            watch.lease, run, Seconds(watch.judge.wait), judge.problem()));
      case State::kForeign:
        return base::InfrastructureError(
            fmt::format("{}: {}, and not of run {}; nothing was ended: give the lease and the id "
                        "of one run",
                        watch.lease, judge.problem(), run));
      case State::kGraceTooShort:
        return base::UsageError(fmt::format(
            "{}: is renewed every {}; write --grace {}s or more, three renewals", watch.lease,
            Seconds(judge.lease()->interval), 3 * judge.lease()->interval.count()));
    }
  }
}

}  // namespace upgrade_gate::server
