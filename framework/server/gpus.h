// The GPUs of this host, whoever made them: what they are, who uses them, what slows
// them down. Reasons not to measure on them.
//
// NVIDIA's are read by nvidia-smi, AMD's from the files of their driver. What cannot be
// read is unknown, and unknown is never "free": it is an error of what asks whether
// GPUs are free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/evidence/records.h"
#include "framework/plan/plan.h"
#include "framework/server/host.h"

namespace upgrade_gate::server {

enum class GpuVendor { kNvidia, kAmd };

struct Gpu {
  std::string index;               // as the vendor's runtime counts them on this host
  std::string id;                  // stays with the hardware: "GPU-9f3ab12cde45f678"
  std::vector<std::string> names;  // others by which a plan may choose it: "renderD128"
  std::string model, driver;
  std::optional<std::int64_t> memory_mib;
  std::int64_t memory_used_mib = 0;
  std::vector<std::string> processes;              // "4711 python3 (80,000 MiB)"
  std::optional<std::int64_t> uncorrected_errors;  // of ECC, since the driver was loaded
  std::vector<std::string> slowed_by;              // at this moment; a power cap is no slowdown
  // Where the firmware counts: of how many of its cycles since the start each reason
  // slowed the GPU down.
  std::optional<std::uint64_t> cycles;
  std::map<std::string, std::uint64_t> slowed_cycles;
  std::filesystem::path device;  // its folder below /sys; empty: not needed
};

struct GpuSelection {
  std::vector<std::string> ids;     // Gpu::index, id or one of names; empty: all
  std::optional<GpuVendor> vendor;  // absent: NVIDIA's where its driver is loaded, else AMD's
};

// Those that a boot's server may use: the allocated ones, else those that the plan
// gives a container by `gpus`, else AMD's where `devices` has /dev/kfd: those whose
// /dev/dri/renderD… stand there too, or all. Nothing: it uses none that anybody knows of.
std::optional<GpuSelection> SelectGpus(const plan::ServerSettings& settings,
                                       const std::vector<std::string>& allocated);

// The selected ones. None where no driver of the vendor is loaded; an error where one is
// and does not tell, and where something is selected that this host does not have.
base::Result<std::vector<Gpu>> ReadGpus(const HostReader& reader, const GpuSelection& selection);

// Before a boot. An error (kInfrastructure) names what is left on the GPUs half a
// minute after an earlier server's end (processes, memory), ECC errors that were
// not corrected, and faults in the kernel's log that only a reset ends. A wait that is
// `interrupted` ends at once with an error that says so.
base::Status CheckGpus(const HostReader& reader, const GpuSelection& selection, base::Clock& clock,
                       const std::function<bool()>& interrupted);

// The GPUs at one moment; empty: none, or nothing is known.
std::vector<Gpu> LookAtGpus(const HostReader& reader, const std::optional<GpuSelection>& selection);

// What slowed the GPUs down between two looks: "GPU 0 (GPU-12ab): power brake before it;
// GPU 1 (GPU-12ac): thermal slowdown in 12 % of it". Empty: nothing that anybody knows of.
std::string Slowdowns(const std::vector<Gpu>& before, const std::vector<Gpu>& after);

// `gpu_driver` and `gpus`, over all vendors.
std::vector<evidence::Fact> GpuFacts(const HostReader& reader);

}  // namespace upgrade_gate::server
