// What one vendor's GPUs need: a row of the table in gpus.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/result.h"
#include "framework/server/gpus.h"

namespace upgrade_gate::server {

struct GpuVendorReader {
  GpuVendor vendor;
  std::string_view place;    // below the root; there where the driver is loaded
  std::string_view source;   // of facts
  std::string_view witness;  // who names the processes on a GPU
  // All of them; an error where the driver is loaded and does not tell.
  base::Result<std::vector<Gpu>> (*read)(const HostReader& reader);
  // ECC errors that were not corrected; nothing: unknown. Asked once a boot: some
  // drivers forget what they have told.
  std::optional<std::int64_t> (*uncorrected_errors)(const Gpu& gpu);
  // The line of the kernel's log with a fault of one of these GPUs that only a reset
  // ends, or with one of which nobody knows whose it is. Empty: there is none, or a reset
  // came after it. Resets of NVIDIA's GPUs leave no line: their faults stay until the log
  // starts anew, by a reboot or `dmesg --clear`.
  std::string (*kernel_fault)(std::string_view log, const std::vector<Gpu>& gpus);
};

GpuVendorReader NvidiaGpus();
GpuVendorReader AmdGpus();

}  // namespace upgrade_gate::server
