// The watchdog of a run whose runner is on another machine: learns by the run's lease
// that the runner is dead, and then does what the runner's own watchdog does.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "framework/base/result.h"
#include "framework/server/lease.h"
#include "framework/server/watchdog.h"

namespace upgrade_gate::server {

struct LeaseWatch {
  LeaseJudge::Options judge;
  std::string lease;  // as people name it: a file, a URL
  // Its bytes, at most a few more than kMostLeaseBytes. Called on a thread of its own,
  // which may hang in it: a shared file system does when the runner's machine is gone.
  std::function<base::Result<std::string>()> read;
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);  // between two looks
  std::function<bool()> told_to_end = [] { return false; };       // asked ten times a second
  std::function<void(const std::string&)> say;                    // one line, for people
  // Each is given the run's id, and run before and again after the run's processes are
  // killed.
  Cleaners cleaners;
};

// Blocks until the run is over, dead or past its deadline, or until it is told to end;
// then ends everything of the run on this machine. An error if the lease never came, is
// of another run, or something could not be ended.
base::Status WatchLease(const LeaseWatch& watch);

}  // namespace upgrade_gate::server
