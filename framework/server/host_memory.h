// Whether a host's memory came back after an earlier server's end.
//
// Page cache is no memory that is missing: the kernel counts it as available. Missing
// are what processes hold, and what nobody holds and nobody frees: files in /dev/shm,
// segments of System V, huge pages. Everything is read through a HostReader.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/server/host.h"

namespace upgrade_gate::server {

// Memory that outlives its process.
struct SharedMemory {
  std::string name;      // "/dev/shm/psm_1" or "segment 7 of System V"
  std::string identity;  // another one of that name has another
  std::uint64_t bytes = 0;
  std::uint64_t user = 0;
  std::uint64_t device = 0, inode = 0;  // of a file
  bool attached = false;                // of a segment
};

struct ProcessMemory {
  std::string name;  // not made visible
  std::uint64_t user = 0;
  std::int64_t kib = 0;  // anonymous and shared; what it maps of files is page cache
};

struct HostMemory {
  std::int64_t total_kib = 0;
  std::int64_t available_kib = 0;
  std::int64_t huge_kib = 0;   // of reserved huge pages, which are in no other figure
  std::int64_t tmpfs_kib = 0;  // shared memory and files in tmpfs
  std::vector<SharedMemory> shared;
  std::map<std::uint64_t, ProcessMemory> processes;  // by pid
};

// An error (kInfrastructure) where /proc/meminfo or /dev/shm cannot be read.
base::Result<HostMemory> ReadHostMemory(const HostReader& reader);

// How much less may be available than before, and no boot is refused: 5 % of the memory
// or 4 GiB, whichever is more. Other work on a host comes and goes by as much, and a
// server that is measured within its own limits does not feel it.
std::int64_t MemorySlackKib(std::int64_t total_kib);

// Waits up to half a minute for what was there `before` the first boot. Then an error
// (kInfrastructure) names what is missing and who has it: more than the slack, or 64 MiB
// of shared memory that came since, and that no living process holds. A wait that is
// `interrupted` ends at once with an error that says so.
base::Status CheckMemory(const HostReader& reader, const HostMemory& before, base::Clock& clock,
                         const std::function<bool()>& interrupted);

}  // namespace upgrade_gate::server
