// AMD's GPUs, from the files of the amdgpu driver and its compute part (KFD): no tool of
// ROCm need be installed, and every user may read them.
//
// Sources in Linux, drivers/gpu/drm/amd:
//   amdkfd/kfd_topology.c  class/kfd/kfd/topology/nodes/N: gpu_id (0: a CPU), properties
//   amdkfd/kfd_process.c   class/kfd/kfd/proc/PID: vram_GPUID (bytes), queues/N/gpuid
//   amdgpu/amdgpu_vram_mgr.c, amdgpu_fru_eeprom.c, pm/amdgpu_pm.c
//                          class/drm/renderDN/device: mem_info_vram_used, mem_info_vram_total
//                          (bytes), product_name, unique_id (16 hexadecimal digits)
//   amdgpu/amdgpu_ras.c    device/ras/BLOCK_err_count: lines "ue: N" and "ce: N", or
//                          "Query currently inaccessible"
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/server/amd_gpu_metrics.h"
#include "framework/server/gpu_vendor.h"
#include "framework/server/host_text.h"

namespace upgrade_gate::server {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kFileCap = std::uint64_t{1} << 16;
constexpr std::string_view kKfd = "sys/class/kfd/kfd";
// What ROCm's runtime takes of every GPU that a process may use, also of those that it
// does not: no sign that the process is on the GPU. A queue is one.
constexpr std::uint64_t kAttachedBytes = std::uint64_t{16} << 20;

// A small text file; empty: not there, or not to be read.
std::string TextOf(const fs::path& path) {
  const auto text = base::ReadFile(path, kFileCap);
  return text ? base::Visible(Trimmed(*text)) : std::string();
}

std::string DriverVersion(const HostReader& reader) {
  std::string version = TextOf(reader.root / "sys/module/amdgpu/version");
  if (!version.empty()) return version;
  // The driver that comes with the kernel has no version of its own.
  const std::string kernel = TextOf(reader.root / "proc/sys/kernel/osrelease");
  return kernel.empty() ? "unknown" : "of kernel " + kernel;
}

// "0000:68:00.0"; kfd_topology.c writes bus, device and function into location_id.
std::string PciAddress(std::uint64_t domain, std::uint64_t location) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, location >> 8 & 0xff,
                     location >> 3 & 0x1f, location & 0x7);
}

base::Result<std::uint64_t> Property(const fs::path& file, std::string_view text,
                                     std::string_view name) {
  const auto value = Number<std::uint64_t>(FirstValue(text, name, ' '));
  if (value) return *value;
  return base::InfrastructureError(fmt::format("{}: does not say {}", file.string(), name));
}

// Of a GPU that is one card in several parts, the parts have a render node each and
// the files belong to the card.
base::Result<fs::path> DeviceFolder(const HostReader& reader, std::uint64_t minor,
                                    const std::string& address) {
  const fs::path render = reader.root / fmt::format("sys/class/drm/renderD{}/device", minor);
  const fs::path pci = reader.root / "sys/bus/pci/devices" / address;
  for (const fs::path& folder : {render, pci}) {
    std::error_code error;
    if (fs::exists(folder / "mem_info_vram_used", error)) return folder;
  }
  return base::InfrastructureError(
      fmt::format("neither {} nor {} has mem_info_vram_used: how much of the GPU's memory is in "
                  "use is unknown",
                  render.string(), pci.string()));
}

// Nothing: the node is a CPU.
base::Result<std::optional<Gpu>> ReadNode(const HostReader& reader, const fs::path& node,
                                          std::uint64_t gpu_id) {
  if (gpu_id == 0) return std::optional<Gpu>();
  const fs::path file = node / "properties";
  UG_ASSIGN(const std::string properties, base::ReadFile(file, kFileCap));
  UG_ASSIGN(const std::uint64_t minor, Property(file, properties, "drm_render_minor"));
  UG_ASSIGN(const std::uint64_t location, Property(file, properties, "location_id"));
  const auto domain = Number<std::uint64_t>(FirstValue(properties, "domain", ' '));
  const std::string address = PciAddress(domain.value_or(0), location);

  Gpu gpu;
  UG_ASSIGN(gpu.device, DeviceFolder(reader, minor, address));
  UG_ASSIGN(const std::uint64_t used, ReadNumber(gpu.device / "mem_info_vram_used"));
  gpu.memory_used_mib = CeilMib(used);
  if (const auto total = ReadNumber(gpu.device / "mem_info_vram_total")) {
    gpu.memory_mib = CeilMib(*total);
  }
  const std::string unique = TextOf(gpu.device / "unique_id");
  gpu.id = unique.empty() ? address : "GPU-" + unique;  // as ROCm writes its UUIDs
  gpu.names = {fmt::format("renderD{}", minor), address, unique};
  std::erase(gpu.names, "");
  gpu.model = TextOf(gpu.device / "product_name");  // cards for servers have one
  if (gpu.model.empty()) {
    const std::string chip = TextOf(gpu.device / "device");
    gpu.model = "AMD " + (chip.empty() ? "GPU" : chip);
  }
  gpu.driver = DriverVersion(reader);
  if (const auto table = base::ReadFile(gpu.device / "gpu_metrics", kFileCap)) {
    AmdThrottling throttling = ParseAmdGpuMetrics(*table);
    gpu.slowed_by = std::move(throttling.now);
    gpu.cycles = throttling.cycles;
    gpu.slowed_cycles = std::move(throttling.residency);
  }
  return std::optional<Gpu>(std::move(gpu));
}

bool HasQueue(const fs::path& process, std::uint64_t gpu_id) {
  const auto queues = NumberedEntries(process / "queues");
  if (!queues) return false;
  return std::any_of(queues->begin(), queues->end(), [&](std::uint64_t queue) {
    const auto id = ReadNumber(process / "queues" / std::to_string(queue) / "gpuid");
    return id && *id == gpu_id;
  });
}

// "4711 python3 (80,000 MiB)"; empty: it is not on the GPU, or has just ended.
base::Result<std::string> UseBy(const HostReader& reader, std::uint64_t pid, std::uint64_t gpu_id) {
  const fs::path folder = reader.root / kKfd / "proc" / std::to_string(pid);
  const auto bytes = ReadNumber(folder / fmt::format("vram_{}", gpu_id));
  const bool queue = HasQueue(folder, gpu_id);
  if (!bytes) {
    std::error_code error;
    if (!fs::exists(folder, error) && !error) return std::string();
    if (!queue) return tl::unexpected(bytes.error());
  }
  if (!queue && *bytes < kAttachedBytes) return std::string();
  // Of another pid namespace it has no name here.
  std::string name = TextOf(reader.root / "proc" / std::to_string(pid) / "comm");
  if (name.empty()) name = "(of another pid namespace)";
  return base::Shorten(fmt::format("{} {} ({} MiB)", pid, name,
                                   bytes ? base::WithThousands(CeilMib(*bytes)) : std::string("?")),
                       200);
}

base::Result<std::vector<Gpu>> ReadAmd(const HostReader& reader) {
  const fs::path nodes = reader.root / kKfd / "topology/nodes";
  UG_ASSIGN(const auto numbers, NumberedEntries(nodes));
  std::vector<Gpu> gpus;
  std::vector<std::uint64_t> gpu_ids;
  base::Status hidden;
  for (const std::uint64_t number : numbers) {
    const fs::path node = nodes / std::to_string(number);
    const auto gpu_id = ReadNumber(node / "gpu_id");
    if (!gpu_id) {
      // A container sees the nodes of GPUs that it may not use, and ROCm does not count them.
      if (hidden) hidden = tl::unexpected(gpu_id.error());
      continue;
    }
    UG_ASSIGN(auto gpu, ReadNode(reader, node, *gpu_id));
    if (!gpu) continue;
    gpu->index = std::to_string(gpus.size());  // ROCm counts in this order
    gpus.push_back(std::move(*gpu));
    gpu_ids.push_back(*gpu_id);
  }
  if (gpus.empty()) {
    UG_TRY(hidden);
    return gpus;
  }
  UG_ASSIGN(const auto pids, NumberedEntries(reader.root / kKfd / "proc"));
  for (const std::uint64_t pid : pids) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      UG_ASSIGN(std::string use, UseBy(reader, pid, gpu_ids[i]));
      if (!use.empty()) gpus[i].processes.push_back(std::move(use));
    }
  }
  return gpus;
}

// Over all blocks that count. Of some GPUs (MI200) the driver starts again from nought
// when it has told; what it told earlier stands in the kernel's log.
std::optional<std::int64_t> UncorrectedErrors(const Gpu& gpu) {
  std::error_code error;
  std::optional<std::int64_t> sum;
  fs::directory_iterator it(gpu.device / "ras", error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (!it->path().filename().native().ends_with("_err_count")) continue;
    const auto text = base::ReadFile(it->path(), kFileCap);
    const auto count = text ? Number<std::uint32_t>(FirstValue(*text, "ue")) : std::nullopt;
    if (count) sum = sum.value_or(0) + *count;
  }
  return sum;
}

// "0000:68:00.0" after "amdgpu " or " for ", as the driver writes it; empty: the line has none.
std::string AddressIn(std::string_view line) {
  for (const std::string_view before : {"amdgpu ", " for "}) {
    const std::size_t at = line.find(before);
    if (at == line.npos) continue;
    const std::string_view address = line.substr(at + before.size(), 12);
    if (address.size() == 12 && address[4] == ':' && address[7] == ':' && address[10] == '.') {
      return std::string(address);
    }
  }
  return {};
}

// "…: 2 uncorrectable hardware errors detected in umc block", also "2 new uncorrectable"
bool HasUncorrectedErrors(std::string_view line) {
  const std::size_t at = line.find(" uncorrectable hardware errors detected");
  if (at == line.npos) return false;
  line = line.substr(0, at);
  if (line.ends_with(" new")) line.remove_suffix(4);
  const std::size_t start = line.find_last_not_of("0123456789");
  const auto count = Number<std::uint64_t>(line.substr(start == line.npos ? 0 : start + 1));
  return count.value_or(0) > 0;
}

bool Has(std::string_view line, std::string_view text) {
  return line.find(text) != line.npos;
}

// Messages of amdgpu_device.c, amdgpu_job.c, amdgpu_ras.c and kfd_device_queue_manager.c.

bool IsRingTimeout(std::string_view line) {
  return Has(line, "ring ") && Has(line, " timeout, ") && Has(line, "signaled seq=");
}

// A fault of a page is its program's own; a reset that began and did not end is one of the GPU.
bool IsFault(std::string_view line) {
  return IsRingTimeout(line) || Has(line, "GPU reset begin") ||
         (Has(line, "GPU reset(") && Has(line, "failed")) ||
         Has(line, "GPU reset end with ret = -") || Has(line, "GPU recovery disabled") ||
         Has(line, "unrecoverable state") || Has(line, "device lost from bus") ||
         Has(line, "Fatal error during GPU init") || Has(line, "uncorrectable hardware error(") ||
         HasUncorrectedErrors(line);
}

// Of the whole GPU.
bool IsReset(std::string_view line) {
  return (Has(line, "GPU reset") && Has(line, "succeeded")) || Has(line, "Initialized amdgpu ");
}

// "Ring gfx_0.0.0 reset succeeded": the GPU goes on as it was.
bool IsRingReset(std::string_view line) {
  return Has(line, "Ring ") && Has(line, " reset succeeded");
}

std::string KernelFault(std::string_view log, const std::vector<Gpu>& gpus) {
  std::vector<std::pair<std::string, std::string>> faults;  // address and line, as they came
  for (std::string& line : Lines(log)) {
    if (!Has(line, "amdgpu")) continue;
    const std::string address = AddressIn(line);
    const bool whole = IsReset(line);
    if (whole || IsRingReset(line)) {
      // A line without an address is of whichever GPU is reset next.
      std::erase_if(faults, [&](const auto& fault) {
        return (fault.first.empty() || fault.first == address) &&
               (whole || IsRingTimeout(fault.second));
      });
    } else if (IsFault(line)) {
      const bool ours = std::any_of(gpus.begin(), gpus.end(), [&](const Gpu& gpu) {
        return std::find(gpu.names.begin(), gpu.names.end(), address) != gpu.names.end();
      });
      if (ours || address.empty()) faults.emplace_back(address, std::move(line));
    }
  }
  return faults.empty() ? std::string() : faults.front().second;
}

}  // namespace

GpuVendorReader AmdGpus() {
  return {.vendor = GpuVendor::kAmd,
          .place = "sys/class/kfd",
          .source = "/sys/class/kfd and /sys/class/drm",
          .witness = "/sys/class/kfd/kfd/proc",
          .read = ReadAmd,
          .uncorrected_errors = UncorrectedErrors,
          .kernel_fault = KernelFault};
}

}  // namespace upgrade_gate::server
