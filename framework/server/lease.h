// What tells other nodes that a run goes on: `<run>/lease.json`, which its runner
// renews while it lives. Whoever watches it sees a counter grow; times of two
// machines are never compared.
//
//   {"schema": 1, "run_id": "…", "counter": 17, "interval_s": 3, "over": false,
//    "ends_in_s": 3600}
//
// `ends_in_s`, left out where a run has no deadline, counts from this renewal.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "framework/base/clock.h"
#include "framework/base/result.h"

namespace upgrade_gate::server {

inline constexpr std::size_t kMostLeaseBytes = std::size_t{64} << 10;

struct Lease {
  std::string run_id;                // a plain name
  std::int64_t counter = 0;          // grows with every renewal
  std::chrono::seconds interval{3};  // between two renewals
  bool over = false;                 // the runner has ended in order
  std::optional<std::chrono::seconds> ends_in = {};
};

std::string FormatLease(const Lease& lease);
// Strict; an error says what is wrong, without the file's name.
base::Result<Lease> ParseLease(std::string_view bytes);

// Renews the lease on a thread of its own, so that it lasts while the runner is busy
// and ends with the process, however that ends. Destroying it says that the run is
// over.
class LeaseKeeper {
 public:
  struct Options {
    std::filesystem::path file;
    std::string run_id;
    std::chrono::milliseconds interval = std::chrono::seconds(3);
    std::optional<base::Instant> deadline = {};
    // Told once when renewing begins to fail, and when it works again; on its thread.
    std::function<void(const std::string&)> say = [](const std::string&) {};
  };
  // The first lease is written before it returns.
  static base::Result<std::unique_ptr<LeaseKeeper>> Start(Options options);
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

 private:
  explicit LeaseKeeper(Options options) : options_(std::move(options)) {}
  base::Status Renew(bool over);
  void Live();

  const Options options_;
  const base::SystemClock clock_;
  std::int64_t counter_ = 0;  // of whoever renews: one thread at a time
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

// Whether a run goes on, by what was read of its lease and one's own clock. Pure.
class LeaseJudge {
 public:
  struct Options {
    std::string run_id;
    std::chrono::milliseconds grace = std::chrono::seconds(60);  // without a renewal
    std::chrono::milliseconds wait = std::chrono::minutes(5);    // until the first one is there
    // Time in which nobody looked (a watcher that was stopped itself) counts as no more.
    std::chrono::milliseconds longest_step = std::chrono::seconds(10);
  };
  enum class State {
    kWaiting,        // it was not seen yet
    kRenewed,        // or not due yet
    kOverdue,        // two renewals are missing
    kStalled,        // not renewed for `grace`
    kOver,           // it says so
    kDeadline,       // the run's deadline has passed
    kNeverSeen,      // not within `wait`
    kForeign,        // the first one is of another run
    kGraceTooShort,  // it is renewed too seldom for `grace`
  };
  LeaseJudge(Options options, base::Instant now) : options_(std::move(options)), last_look_(now) {}

  // What was read since the last call; nothing if no reading has ended.
  State Take(const std::optional<base::Result<std::string>>& read, base::Instant now);

  // Why the last reading was no renewal; empty: it was one, or the same lease again.
  const std::string& problem() const { return problem_; }
  const std::optional<Lease>& lease() const { return lease_; }  // the last renewal
  base::Nanoseconds unrenewed() const { return unrenewed_; }

 private:
  // The state that a reading decides at once, if it does.
  std::optional<State> Read(const base::Result<std::string>& read, base::Instant now);

  const Options options_;
  std::optional<Lease> lease_;
  std::optional<base::Instant> deadline_;
  base::Instant last_look_;
  base::Nanoseconds unrenewed_{0};  // while somebody looked
  std::string problem_ = "nothing was read yet";
};

}  // namespace upgrade_gate::server
