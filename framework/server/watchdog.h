// Ends what a dead run left: a process of its own, outside the run's tree.
//
// CTest kills a whole process tree by parent id; only a double-forked process
// in its own session survives that. The watchdog holds one end of a socket pair;
// the runner writes what it starts into the other, before that may run. When the
// runner's end closes, for whatever reason, everything still listed is killed, and
// what is no process of this machine is ended by the cleaners that were listed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "framework/base/file.h"
#include "framework/base/result.h"

namespace upgrade_gate::server {

// The variable that every process of a run carries, with the run's id as value:
// processes that left their group are found by it.
inline constexpr const char* kRunMarker = "UPGRADE_GATE_RUN";
// The same for one boot, with "<run id>/<boot>" as value.
inline constexpr const char* kBootMarker = "UPGRADE_GATE_BOOT";

// Ends what belongs to a run and is no process of it (a container, a job). The
// argument is one line that says what; it is done when nothing of that is left,
// also if nothing was there. `limit` is the most it may take.
using Cleaner =
    std::function<base::Status(const std::string& argument, std::chrono::milliseconds limit)>;
// By name: what the watchdog of one program knows.
using Cleaners = std::map<std::string, Cleaner>;
inline constexpr std::size_t kMostCleanerBytes = std::size_t{64} << 10;  // of an argument

// The runner's end. Destroying it lets the watchdog clean up and end. The functions
// may be called from several threads; each is an error if the watchdog is no longer
// there.
class Watchdog {
 public:
  // Starts `executable watchdog --run-id ID` double-forked, in its own session,
  // with standard streams on /dev/null and the socket as descriptor 3; returns
  // once it has said that it is watching. `run_id` is a plain name
  // (base::IsPlainName).
  static base::Result<Watchdog> Start(const std::filesystem::path& executable,
                                      const std::string& run_id);

  // To be called before the process may run any code of its own.
  base::Status Guard(pid_t process_group);
  base::Status Release(pid_t process_group);
  // To be called before there may be anything to clean, and after nothing is left.
  base::Status AddCleaner(const std::string& name, const std::string& argument);
  base::Status RemoveCleaner(const std::string& name, const std::string& argument);
  // From now on: then the watchdog ends everything that is listed, whether or not
  // the runner lives, and itself. Replaces an earlier one.
  base::Status SetDeadline(std::chrono::seconds from_now);
  // Gives it a copy of an open file, which it keeps until it is done: a lock on
  // the file lasts until what a dead run left is gone.
  base::Status Hold(int file);
  pid_t pid() const { return pid_; }

 private:
  Watchdog(base::Fd pipe, pid_t pid) : pipe_(std::move(pipe)), pid_(pid) {}
  base::Status Send(const std::string& line, int file = -1);

  base::Fd pipe_;  // close-on-exec: a server that inherited it would keep it open
  pid_t pid_ = -1;
};

// The watchdog's own life: reads `fd` to its end or until the deadline, then kills
// every process group still listed and every process of this user that carries the
// run's marker, until none is left or ten seconds have passed, and runs every
// cleaner still listed, all at once, again and again until it succeeds or thirty
// seconds have passed. Returns the number of processes it had to kill.
//
// Ignores INT, HUP, TERM and QUIT, because it has to outlive whatever ends the
// run; it always ends by itself when the runner does. What it reads are lines,
//   guard <group> <start time of its leader>      release <group>
//   cleaner <name> <argument>                     uncleaner <name> <argument>
//   deadline <seconds from now>
//   hold                                          (a descriptor comes with it)
// anything else is skipped. Writes "ready" to `fd` when it can be written to.
int RunWatchdog(int fd, const std::string& run_id, const Cleaners& cleaners = {});

}  // namespace upgrade_gate::server
