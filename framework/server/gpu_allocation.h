// The GPUs that CTest allocated to a capture (RESOURCE_GROUPS and a resource
// specification file), read from the variables in which CTest says so.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/result.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::server {

// By which a server is told which GPUs it may use.
inline constexpr const char* kVisibleGpuVariables[] = {"CUDA_VISIBLE_DEVICES",
                                                       "HIP_VISIBLE_DEVICES"};

// A variable's value; nothing where it is not set.
using VariableLookup = std::function<std::optional<std::string>(const std::string& name)>;

// The indices of all allocated GPUs, the resource type "gpus", over all groups,
// ascending and once each; empty where CTest allocated nothing. Whatever is not
// as CTest writes it is an error (kUsage) that names the variable: half an
// allocation would measure on other GPUs than it says.
base::Result<std::vector<std::string>> AllocatedGpus(const VariableLookup& lookup);

// "0,1"
std::string GpuList(const std::vector<std::string>& gpus);

// An error (kUsage) if the plan itself says which GPUs, and says others. `all`,
// or nothing, is narrowed to the allocation.
base::Status CheckAllocation(const plan::ResolvedPlan& plan,
                             const std::vector<std::string>& allocated);

}  // namespace upgrade_gate::server
