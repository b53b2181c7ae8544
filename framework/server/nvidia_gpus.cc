// NVIDIA's GPUs, by nvidia-smi.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/server/gpu_vendor.h"
#include "framework/server/host_text.h"

namespace upgrade_gate::server {
namespace {

constexpr std::chrono::seconds kCommandLimit{20};
// Faults after which a GPU needs a reset or a reboot.
constexpr int kFatalXids[] = {48, 62, 74, 79, 95, 119, 120};
// Bits of clocks_throttle_reasons.active that slow down what the plan measures.
constexpr std::pair<std::uint64_t, std::string_view> kSlowdowns[] = {
    {0x8, "hardware slowdown"},
    {0x20, "thermal slowdown by software"},
    {0x40, "thermal slowdown by hardware"},
    {0x80, "power brake"}};

// "0000:3b:00" of "00000000:3B:00.0", as nvidia-smi writes an address, and of what the
// kernel's log has, "PCI:0000:3b:00" or, of a part (MIG), "PCI:0000:3b:00 GPU-I:05".
// Empty: it is none.
std::string PciAddress(std::string_view text) {
  constexpr std::string_view kPrefix = "PCI:";
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  const auto parts = Split(text.substr(0, text.find_first_of(". ")), ':');
  if (parts.size() != 3) return {};
  const auto domain = Number<std::uint32_t>(parts[0], 16);
  const auto bus = Number<std::uint8_t>(parts[1], 16);
  const auto device = Number<std::uint8_t>(parts[2], 16);
  if (!domain || !bus || !device) return {};
  return fmt::format("{:04x}:{:02x}:{:02x}", *domain, *bus, *device);
}

base::Result<Gpu> ParseGpu(const std::string& line) {
  const auto fields = Split(line, ',');
  const auto memory = fields.size() == 8 ? Number<std::int64_t>(fields[4]) : std::nullopt;
  if (!memory) {
    return base::InfrastructureError(fmt::format("nvidia-smi: cannot read its line \"{}\"",
                                                 base::Shorten(base::Visible(line), 200)));
  }
  Gpu gpu;
  gpu.index = base::Visible(fields[0]);
  gpu.id = base::Visible(fields[1]);
  gpu.model = base::Visible(fields[2]);
  gpu.driver = base::Visible(fields[3]);
  gpu.memory_used_mib = *memory;
  gpu.uncorrected_errors = Number<std::int64_t>(fields[5]);
  if (fields[6].starts_with("0x")) {
    const auto limits = Number<std::uint64_t>(std::string_view(fields[6]).substr(2), 16);
    for (const auto& [bit, reason] : kSlowdowns) {
      if ((limits.value_or(0) & bit) != 0) gpu.slowed_by.emplace_back(reason);
    }
  }
  gpu.names = {PciAddress(fields[7])};
  std::erase(gpu.names, "");
  return gpu;
}

// An error where nvidia-smi fails, as it does when the driver and its library do not fit.
base::Result<std::vector<Gpu>> ReadNvidia(const HostReader& reader) {
  if (!reader.run) return base::InfrastructureError("nvidia-smi was not asked");
  std::vector<Gpu> gpus;
  UG_ASSIGN(const std::string list,
            reader.run({"nvidia-smi",
                        "--query-gpu=index,uuid,name,driver_version,memory.used,"
                        "ecc.errors.uncorrected.volatile.total,clocks_throttle_reasons.active,"
                        "pci.bus_id",
                        "--format=csv,noheader,nounits"},
                       kCommandLimit));
  for (const std::string& line : Lines(list)) {
    UG_ASSIGN(gpus.emplace_back(), ParseGpu(line));
  }
  UG_ASSIGN(const std::string apps,
            reader.run({"nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name,used_memory",
                        "--format=csv,noheader,nounits"},
                       kCommandLimit));
  for (const std::string& line : Lines(apps)) {
    // A name may break its line: what stands before it names the process all the same.
    auto fields = Split(line, ',');
    const std::string memory = fields.size() < 4 ? "?" : fields.back();
    fields.resize(std::max<std::size_t>(fields.size(), 3), "?");
    for (Gpu& gpu : gpus) {
      if (gpu.id != fields[0]) continue;
      gpu.processes.push_back(base::Shorten(
          base::Visible(fmt::format("{} {} ({} MiB)", fields[1], fields[2], memory)), 200));
    }
  }
  return gpus;
}

std::optional<std::int64_t> UncorrectedErrors(const Gpu& gpu) {
  return gpu.uncorrected_errors;
}

// Also where one of the two addresses is unknown.
bool MayBeOf(const std::vector<Gpu>& gpus, const std::string& address) {
  return address.empty() || std::any_of(gpus.begin(), gpus.end(), [&](const Gpu& gpu) {
           return gpu.names.empty() || gpu.names.front() == address;
         });
}

// The first line with a fault that only a reset ends.
std::string FatalXid(std::string_view log, const std::vector<Gpu>& gpus) {
  constexpr std::string_view kXid = "NVRM: Xid (";
  for (const std::string& line : Lines(log)) {
    const std::size_t at = line.find(kXid);
    const std::size_t close = at == line.npos ? line.npos : line.find("): ", at);
    if (close == line.npos) continue;
    const std::size_t open = at + kXid.size();
    if (!MayBeOf(gpus, PciAddress(std::string_view(line).substr(open, close - open)))) continue;
    const std::string_view rest = std::string_view(line).substr(close + 3);
    const auto xid = Number<int>(rest.substr(0, rest.find_first_not_of("0123456789")));
    if (xid &&
        std::find(std::begin(kFatalXids), std::end(kFatalXids), *xid) != std::end(kFatalXids)) {
      return line;
    }
  }
  return {};
}

}  // namespace

GpuVendorReader NvidiaGpus() {
  return {.vendor = GpuVendor::kNvidia,
          .place = "proc/driver/nvidia/version",
          .source = "nvidia-smi",
          .witness = "nvidia-smi",
          .read = ReadNvidia,
          .uncorrected_errors = UncorrectedErrors,
          .kernel_fault = FatalXid};
}

}  // namespace upgrade_gate::server
