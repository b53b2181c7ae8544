// The table of /sys/class/drm/*/device/gpu_metrics: what slows an AMD GPU down.
//
// Layouts: drivers/gpu/drm/amd/include/kgd_pp_interface.h of Linux (struct
// gpu_metrics_v1_3, _v1_6, _v1_7, _v1_8, _v1_9); bits of indep_throttle_status:
// drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h (SMU_THROTTLER_*). Little-endian; the
// driver fills what a GPU does not report with ones.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace upgrade_gate::server {

struct AmdThrottling {
  // Reasons at this moment. Of tables 1.3 (MI200 and cards of its time).
  std::vector<std::string> now;
  // How many of the firmware's cycles each reason took, since the start. Of tables 1.6
  // and later (MI300 and later).
  std::optional<std::uint64_t> cycles;
  std::map<std::string, std::uint64_t> residency;
};

// Empty where the table is of another version, broken, or does not say: then nothing is
// known. Limits of power and current are how GPUs work under load, and left out.
AmdThrottling ParseAmdGpuMetrics(std::string_view table);

}  // namespace upgrade_gate::server
