// The one home of the exit codes, the same for the command and the gate binary.
//
// They keep clear of 1, which crashes, sanitizers and plain GoogleTest use, so
// that "exit 10" can only mean "the gates said no".
#pragma once

#include "framework/base/result.h"

namespace upgrade_gate::base {

enum class ExitCode : int {
  kAccept = 0,
  kReject = 10,
  kInconclusive = 11,
  kUsage = 12,           // usage or plan error
  kInfrastructure = 13,  // the run could not be done as planned
  kEvidence = 14,        // evidence broken or tampered with
  kNothingRan = 15,
};

constexpr ExitCode ExitCodeOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return ExitCode::kUsage;
    case ErrorKind::kEvidence:
      return ExitCode::kEvidence;
    case ErrorKind::kNothingRan:
      return ExitCode::kNothingRan;
    case ErrorKind::kInfrastructure:
      break;
  }
  return ExitCode::kInfrastructure;
}

}  // namespace upgrade_gate::base
