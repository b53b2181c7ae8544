// What a host is, and what its GPUs are doing: facts for the evidence, and reasons
// not to measure on it.
//
// Everything is read through a HostReader, so that a test can show other hosts.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/evidence/records.h"

namespace upgrade_gate::server {

// Runs one command to its end and returns what it printed: an argv, never a shell;
// capped in time and output.
using RunArgv = std::function<base::Result<std::string>(const std::vector<std::string>& argv,
                                                        std::chrono::milliseconds limit)>;

struct HostReader {
  std::filesystem::path root = "/";  // of /proc, /sys and /etc
  RunArgv run;                       // null: no command is run, and what one would tell is unknown
};

// By name: machine, CPU, memory, kernel, clock source, frequency governor, GPUs and
// their driver. What cannot be read is unknown, what this host does not have absent.
std::vector<evidence::Fact> ReadHostFacts(const HostReader& reader);

// The time since the machine's start in which anybody waited for a CPU, by the kernel's
// pressure figures; nothing where it keeps none.
std::optional<std::chrono::microseconds> CpuPressure(const HostReader& reader);

// A GPU of NVIDIA, by nvidia-smi.
struct Gpu {
  std::string index, uuid, name, driver;
  std::int64_t memory_used_mib = 0;
  std::optional<std::int64_t> ecc_errors;  // uncorrected, since the driver was loaded
  std::uint64_t clock_limits = 0;          // nvidia-smi's mask of what lowers the clocks
  std::vector<std::string> processes;      // "4711 python3 (80,000 MiB)"
};
// Those of `only` (indices or UUIDs), or all. None where the driver is not loaded or no
// command can be run; an error where nvidia-smi fails, as it does when the driver
// and its library do not fit.
base::Result<std::vector<Gpu>> ReadGpus(const HostReader& reader,
                                        const std::vector<std::string>& only);

// Before a boot. An error (kInfrastructure) names what is left on the GPUs half a
// minute after an earlier server's end (processes, memory), ECC errors that were
// not corrected, and faults in the kernel's log that only a reset ends.
base::Status CheckGpus(const HostReader& reader, const std::vector<std::string>& only,
                       base::Clock& clock, const std::function<bool()>& interrupted);

// "GPU 0 (GPU-12ab): thermal slowdown"; empty: none is slowed down, or nothing is
// known. A power cap under load is how GPUs work and no slowdown.
std::string Throttling(const HostReader& reader, const std::vector<std::string>& only);

}  // namespace upgrade_gate::server
