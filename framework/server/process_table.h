// Who is alive and belongs to a boot or a run, read from /proc; and ending them.
//
// A process belongs if it is in a listed group, carries the marker in its
// environment, or descends from one that does. The three overlap on purpose: a
// worker may leave the group, another may overwrite its environment (as
// libraries that set a process title do). Linux 5.9 or later. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/result.h"

namespace upgrade_gate::server {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  char state = '?';
  int threads = 0;
  std::uint64_t start_time = 0;  // clock ticks since the machine's boot; with the pid, an identity
  std::string name;              // as the process says; not made visible

  // False for a zombie; a leader whose main thread ended before its others is alive.
  bool alive() const { return (state != 'Z' && state != 'X') || threads > 1; }
};

// Nothing if there is no such process.
std::optional<Process> ReadProcess(pid_t pid);
// "pid 4711 (python3)", made visible.
std::string Describe(const Process& process);

struct ProcessGroup {
  pid_t id = 0;
  // Of its leader: a leader with another start time is a stranger who got the number.
  std::uint64_t leader_start = 0;
};

struct Belonging {
  std::vector<ProcessGroup> groups = {};
  std::string marker = {};  // "NAME=value", looked for in processes of this user; empty: none
  std::vector<Process> known = {};  // seen before: stay ours when the link to their parents is lost
};

// All living ones, without the caller. An unreadable /proc is an error, never
// an empty answer.
base::Result<std::vector<Process>> FindLiving(const Belonging& belonging);

// The living processes of this user that carry the variable, each with its value.
// Those of them that overwrote their environment are missing.
base::Result<std::vector<std::pair<Process, std::string>>> FindMarked(const std::string& variable);

// Sends the signal if the number still means this process. The descriptor
// becomes readable when it has ended; invalid if it was gone already.
base::Fd Signal(const Process& process, int signal);

// Waits until all have ended; false when `deadline` passes first. `clock` must
// be one that runs.
bool WaitForEnd(const std::vector<base::Fd>& processes, const base::Clock& clock,
                base::Instant deadline);

struct KillOutcome {
  int killed = 0;             // distinct processes
  std::vector<Process> left;  // still alive at the end of the time limit
};
// KILLs until two scans in a row find nothing, or until `limit` has passed.
base::Result<KillOutcome> KillAll(const Belonging& whom, const base::Clock& clock,
                                  base::Nanoseconds limit);

}  // namespace upgrade_gate::server
