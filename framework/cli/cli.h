// The `upgrade-gate` command as a library, so that a test can run it in a
// binary of its own.
#pragma once

#include <functional>

#include "framework/base/exit_code.h"
#include "framework/capture/capture.h"

namespace upgrade_gate::cli {

// Called at the named moments of a capture; tests end the process there.
using MomentHook = std::function<void(capture::Moment)>;

// Parses the arguments and runs the command. Results go to stdout, everything
// else to stderr.
base::ExitCode Run(
    int argc, char** argv, const MomentHook& at = [](capture::Moment) {});

}  // namespace upgrade_gate::cli
