#include "framework/evidence/records.h"

#include <array>

#include "framework/base/result.h"

namespace upgrade_gate::evidence {
namespace {

constexpr std::array kAllStopReasons = {StopReason::kNone,          StopReason::kGuard,
                                        StopReason::kServiceLost,   StopReason::kInterrupted,
                                        StopReason::kDeadline,      StopReason::kIdentity,
                                        StopReason::kInfrastructure};

}  // namespace

std::string_view Name(Phase phase) {
  switch (phase) {
    case Phase::kWarmup:
      return "warmup";
    case Phase::kFormal:
      return "formal";
    case Phase::kDiagnostic:
      return "diagnostic";
  }
  UG_CHECK(false && "a phase without a name");
  return "";
}

std::string_view Name(FactState state) {
  switch (state) {
    case FactState::kPresent:
      return "present";
    case FactState::kAbsent:
      return "absent";
    case FactState::kUnknown:
      break;
  }
  return "unknown";
}

std::string_view Name(IdentityStrength strength) {
  switch (strength) {
    case IdentityStrength::kContent:
      break;
    case IdentityStrength::kFile:
      return "file";
    case IdentityStrength::kClaimed:
      return "claimed";
  }
  return "content";
}

std::string_view Name(StopReason reason) {
  switch (reason) {
    case StopReason::kNone:
      return "none";
    case StopReason::kGuard:
      return "guard";
    case StopReason::kServiceLost:
      return "service_lost";
    case StopReason::kInterrupted:
      return "interrupted";
    case StopReason::kDeadline:
      return "deadline";
    case StopReason::kIdentity:
      return "identity";
    case StopReason::kInfrastructure:
      return "infrastructure";
  }
  UG_CHECK(false && "a stop reason without a name");
  return "";
}

std::optional<StopReason> StopReasonFrom(std::string_view name) {
  for (const StopReason reason : kAllStopReasons) {
    if (Name(reason) == name) return reason;
  }
  return std::nullopt;
}

}  // namespace upgrade_gate::evidence
