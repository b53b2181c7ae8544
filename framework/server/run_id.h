// The id of a run says which process is its runner, so that whoever finds something
// marked with it can tell whether that run is still going on.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "framework/base/clock.h"
#include "framework/server/process_table.h"

namespace upgrade_gate::server {

// "<plan>-<pid>-<start time of this process>-<seconds>": a plain name of at most 64
// bytes. The start time, in the kernel's clock ticks, tells this process from a later
// one of the same number; the seconds, since 1970, tell it from one of another boot of
// the machine.
std::string MakeRunId(std::string_view plan_name, base::WallTime now);

struct Runner {
  pid_t pid = 0;
  std::uint64_t start_time = 0;
};
// Nothing for a text of another form.
std::optional<Runner> RunnerOf(std::string_view run_id);
// Of this pid namespace, and not only by number.
bool IsAlive(const Runner& runner);

}  // namespace upgrade_gate::server
