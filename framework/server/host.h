// What a host is: facts for the evidence. Its GPUs are in gpus.h, its memory in
// host_memory.h.
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

}  // namespace upgrade_gate::server
