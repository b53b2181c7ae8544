#include "framework/server/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>

#include "framework/base/text.h"
#include "framework/server/gpu_vendor.h"
#include "framework/server/host_text.h"

namespace upgrade_gate::server {
namespace {

using evidence::Fact;
using evidence::FactState;

constexpr std::chrono::seconds kReturnLimit{30};  // what an ended server gets to free its GPUs
constexpr std::chrono::seconds kCommandLimit{20};
constexpr std::int64_t kIdleMib = 1024;  // what a driver keeps for itself
// A slowdown of less than this share of a round changes no number that a plan could see.
constexpr double kSlowedShare = 0.01;

std::vector<GpuVendorReader> LoadedVendors(const HostReader& reader) {
  std::vector<GpuVendorReader> loaded;
  for (const GpuVendorReader& vendor : {NvidiaGpus(), AmdGpus()}) {
    std::error_code error;
    if (std::filesystem::exists(reader.root / vendor.place, error)) loaded.push_back(vendor);
  }
  return loaded;
}

std::optional<GpuVendorReader> VendorOf(const HostReader& reader, const GpuSelection& selection) {
  for (const GpuVendorReader& vendor : LoadedVendors(reader)) {
    if (!selection.vendor || vendor.vendor == *selection.vendor) return vendor;
  }
  return std::nullopt;
}

bool IsChosen(const Gpu& gpu, std::string_view id) {
  return id == gpu.index || id == gpu.id ||
         std::find(gpu.names.begin(), gpu.names.end(), id) != gpu.names.end();
}

base::Result<std::vector<Gpu>> ReadSelected(const GpuVendorReader& vendor, const HostReader& reader,
                                            const std::vector<std::string>& ids) {
  UG_ASSIGN(std::vector<Gpu> gpus, vendor.read(reader));
  if (ids.empty() || gpus.empty()) return gpus;
  for (const std::string& id : ids) {
    const bool is_index = id.find_first_not_of("0123456789") == id.npos;
    const auto chosen = [&](const Gpu& gpu) { return IsChosen(gpu, id); };
    // NVIDIA's other ids may be of parts of a GPU (MIG), which its list does not have.
    if (!is_index && vendor.vendor == GpuVendor::kNvidia) continue;
    if (std::any_of(gpus.begin(), gpus.end(), chosen)) continue;
    std::vector<std::string> indices;
    for (const Gpu& gpu : gpus) indices.push_back(gpu.index);
    return base::InfrastructureError(fmt::format("there is no GPU {} on this host, only {}",
                                                 base::Visible(id), base::JoinList(indices)));
  }
  std::erase_if(gpus, [&](const Gpu& gpu) {
    return std::none_of(ids.begin(), ids.end(),
                        [&](const std::string& id) { return IsChosen(gpu, id); });
  });
  return gpus;
}

// What is still on the GPUs; empty: nothing.
std::string Left(const std::vector<Gpu>& gpus, std::string_view witness) {
  std::vector<std::string> left;
  for (const Gpu& gpu : gpus) {
    if (!gpu.processes.empty()) {
      left.push_back(fmt::format("GPU {}: process {}", gpu.index, base::JoinList(gpu.processes)));
    } else if (gpu.memory_used_mib > kIdleMib) {
      left.push_back(fmt::format("GPU {}: {} MiB in use by nobody that {} can see", gpu.index,
                                 base::WithThousands(gpu.memory_used_mib), witness));
    }
  }
  return base::JoinList(left);
}

// "GPU 0 (GPU-aa): thermal slowdown by hardware and power brake"
std::string SlowedNow(const std::vector<Gpu>& gpus) {
  std::vector<std::string> slowed;
  for (const Gpu& gpu : gpus) {
    if (gpu.slowed_by.empty()) continue;
    slowed.push_back(
        fmt::format("GPU {} ({}): {}", gpu.index, gpu.id, base::JoinList(gpu.slowed_by)));
  }
  return base::JoinList(slowed);
}

// By what the firmware counted from one look to the other.
std::string SlowedBetween(const std::vector<Gpu>& before, const std::vector<Gpu>& after) {
  std::vector<std::string> slowed;
  for (const Gpu& gpu : after) {
    const auto was = std::find_if(before.begin(), before.end(),
                                  [&](const Gpu& other) { return other.index == gpu.index; });
    // Counters that went back were reset in between.
    if (was == before.end() || !gpu.cycles || !was->cycles || *gpu.cycles <= *was->cycles) continue;
    const auto cycles = static_cast<double>(*gpu.cycles - *was->cycles);
    std::vector<std::string> reasons;
    for (const auto& [reason, count] : gpu.slowed_cycles) {
      const auto earlier = was->slowed_cycles.find(reason);
      if (earlier == was->slowed_cycles.end() || count < earlier->second) continue;
      const double share = static_cast<double>(count - earlier->second) / cycles;
      if (share < kSlowedShare) continue;
      reasons.push_back(fmt::format("{} in {:.0f} % of it", reason, std::min(share, 1.0) * 100));
    }
    if (reasons.empty()) continue;
    slowed.push_back(fmt::format("GPU {} ({}): {}", gpu.index, gpu.id, base::JoinList(reasons)));
  }
  return base::JoinList(slowed);
}

Fact Unknown(const char* name, const std::string& why) {
  return {name, FactState::kUnknown, "", base::Visible(why), true};
}

}  // namespace

std::optional<GpuSelection> SelectGpus(const plan::ServerSettings& settings,
                                       const std::vector<std::string>& allocated) {
  GpuSelection selection;
  std::vector<std::string> rendering;
  for (const std::string& device : settings.docker.devices) {
    const std::string path = device.substr(0, device.find(':'));
    if (path == "/dev/kfd") selection.vendor = GpuVendor::kAmd;
    constexpr std::string_view kRender = "/dev/dri/renderD";
    if (path.starts_with(kRender)) rendering.push_back(path.substr(path.rfind('/') + 1));
  }
  if (!allocated.empty()) {
    selection.ids = allocated;
  } else if (!settings.gpus.empty()) {
    if (settings.gpus != "all") selection.ids = Split(settings.gpus, ',');
  } else if (selection.vendor) {
    selection.ids = std::move(rendering);
  } else {
    return std::nullopt;
  }
  return selection;
}

base::Result<std::vector<Gpu>> ReadGpus(const HostReader& reader, const GpuSelection& selection) {
  const auto vendor = VendorOf(reader, selection);
  if (!vendor) return std::vector<Gpu>();
  return ReadSelected(*vendor, reader, selection.ids);
}

base::Status CheckGpus(const HostReader& reader, const GpuSelection& selection, base::Clock& clock,
                       const std::function<bool()>& interrupted) {
  const auto vendor = VendorOf(reader, selection);
  if (!vendor) return {};
  const base::Instant deadline = clock.now() + kReturnLimit;
  UG_ASSIGN(std::vector<Gpu> gpus, ReadSelected(*vendor, reader, selection.ids));
  if (gpus.empty()) return {};
  while (!Left(gpus, vendor->witness).empty() && clock.now() < deadline) {
    if (interrupted()) {
      return base::InfrastructureError(
          "interrupted while waiting for the GPUs to be free; run the same command again");
    }
    clock.SleepUntil(std::min(deadline, clock.now() + std::chrono::seconds(1)));
    UG_ASSIGN(gpus, ReadSelected(*vendor, reader, selection.ids));
  }
  if (const std::string left = Left(gpus, vendor->witness); !left.empty()) {
    return base::InfrastructureError(
        "the GPUs are not free: " + left +
        "; end what does not belong here, or give this capture other GPUs");
  }
  for (const Gpu& gpu : gpus) {
    const std::int64_t errors = vendor->uncorrected_errors(gpu).value_or(0);
    if (errors > 0) {
      return base::InfrastructureError(
          fmt::format("GPU {} ({}) has {} uncorrected ECC errors; reset it, and measure on another "
                      "if they come back",
                      gpu.index, gpu.id, errors));
    }
  }
  if (!reader.run) return {};
  // Often not readable without privileges; then it says nothing.
  const auto kernel = reader.run({"dmesg"}, kCommandLimit);
  const std::string fault = kernel ? vendor->kernel_fault(*kernel, gpus) : "";
  if (fault.empty()) return {};
  return base::InfrastructureError(
      fmt::format("the kernel's log has a fault of a GPU that only a reset ends: \"{}\"",
                  base::Shorten(base::Visible(fault), 200)));
}

std::vector<Gpu> LookAtGpus(const HostReader& reader,
                            const std::optional<GpuSelection>& selection) {
  if (!selection) return {};
  auto gpus = ReadGpus(reader, *selection);
  return gpus ? std::move(*gpus) : std::vector<Gpu>();
}

std::string Slowdowns(const std::vector<Gpu>& before, const std::vector<Gpu>& after) {
  std::string text;
  const auto add = [&](const std::string& slowed, const char* when) {
    if (!slowed.empty()) text += (text.empty() ? "" : "; ") + slowed + when;
  };
  add(SlowedNow(before), " before it");
  add(SlowedBetween(before, after), "");
  add(SlowedNow(after), " after it");
  return text;
}

std::vector<Fact> GpuFacts(const HostReader& reader) {
  constexpr const char* kNames[] = {"gpu_driver", "gpus"};
  std::vector<Fact> facts;
  const std::vector<GpuVendorReader> vendors = LoadedVendors(reader);
  if (vendors.empty()) {
    for (const char* name : kNames) {
      facts.push_back({name, FactState::kAbsent, "",
                       "neither /proc/driver/nvidia nor /sys/class/kfd is there", true});
    }
    return facts;
  }
  std::vector<std::string> drivers;
  std::vector<std::string> list;
  std::vector<std::string> sources;
  for (const GpuVendorReader& vendor : vendors) {
    const auto gpus = vendor.read(reader);
    // One that does not tell leaves all unknown: half a list would compare as a whole one.
    if (!gpus) {
      for (const char* name : kNames) facts.push_back(Unknown(name, gpus.error().message));
      return facts;
    }
    for (const Gpu& gpu : *gpus) {
      if (std::find(drivers.begin(), drivers.end(), gpu.driver) == drivers.end()) {
        drivers.push_back(gpu.driver);
      }
      list.push_back(fmt::format("{} {} {}", gpu.index, gpu.model, gpu.id));
      if (gpu.memory_mib) {
        list.back() += fmt::format(" {} MiB", base::WithThousands(*gpu.memory_mib));
      }
    }
    sources.emplace_back(vendor.source);
  }
  const std::vector<std::string>* values[] = {&drivers, &list};
  for (int i = 0; i < 2; ++i) {
    const std::string source = base::JoinList(sources);
    facts.push_back(list.empty()
                        ? Fact{kNames[i], FactState::kAbsent, "", source + " lists none", true}
                        : Fact{kNames[i], FactState::kPresent,
                               base::Shorten(base::JoinList(*values[i]), 4000), source, true});
  }
  return facts;
}

}  // namespace upgrade_gate::server
