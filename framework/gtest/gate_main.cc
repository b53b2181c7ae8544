// The gate binary: one gate of a plan, one process, one exit code.
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "framework/base/text.h"
#include "framework/gtest/gate_run.h"

namespace {

using upgrade_gate::base::ExitCode;

// Code under test that calls exit(0) would otherwise be a pass without a verdict.
bool finished = false;
pid_t gate_process = 0;

void RefuseEarlyExit() {
  // A child of a death test may end as it likes.
  if (finished || getpid() != gate_process) return;
  std::fputs("the process ended before its gate was judged; this is not a pass\n", stderr);
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(ExitCode::kNothingRan));
}

ExitCode Run(const std::vector<std::string>& arguments) {
  using namespace upgrade_gate;
  base::Status status;
  const auto parsed = gtest::ParseArguments(arguments);
  if (parsed && !parsed->list) return gtest::RunGate(*parsed);
  if (parsed) status = gtest::ListGates(*parsed);
  if (parsed && status) return ExitCode::kAccept;
  const base::Error& error = parsed ? status.error() : parsed.error();
  std::fputs((base::NeutralizeCommands(base::Visible(error.message, true)) + "\n").c_str(), stderr);
  return base::ExitCodeOf(error.kind);
}

}  // namespace

int main(int argc, char** argv) {
  gate_process = getpid();
  std::atexit(RefuseEarlyExit);
  std::at_quick_exit(RefuseEarlyExit);
  const ExitCode code = Run(std::vector<std::string>(argc > 0 ? argv + 1 : argv, argv + argc));
  // A verdict that nobody could read was not given.
  const bool written = std::fflush(nullptr) == 0 && std::ferror(stdout) == 0;
  finished = true;
  return static_cast<int>(written ? code : ExitCode::kInfrastructure);
}
