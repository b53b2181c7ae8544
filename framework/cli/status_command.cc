#include <fmt/format.h>

#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/capture/progress.h"
#include "framework/cli/commands.h"
#include "framework/evidence/layout.h"

namespace upgrade_gate::cli {

using base::ExitCode;
using base::Result;

Result<ExitCode> ShowStatus(const StatusOptions& options) {
  const evidence::Layout layout(options.run);
  UG_ASSIGN(capture::Status status, capture::ReadStatus(layout));
  // The capture holds the lock while it lives, so a free lock is proof of its end.
  bool dead = false;
  if (status.running()) dead = base::FileLock::Acquire(layout.lock()).has_value();
  fmt::print("{}: {}\n", base::Visible(status.plan),
             dead ? "dead: the capture ended without saying why; the same command resumes it"
                  : base::Visible(status.state));
  if (status.boot > 0) {
    fmt::print(
        "boot {} ({}){}\n", status.boot, base::Visible(status.arm),
        status.case_name.empty()
            ? ""
            : fmt::format(", case {}, round {}", base::Visible(status.case_name), status.round));
  }
  fmt::print("rounds {}/{}, requests {} ({} failed)\n", status.rounds_done, status.rounds_planned,
             base::WithThousands(status.requests_done),
             base::WithThousands(status.requests_failed));
  if (status.seconds_left && status.running() && !dead) {
    fmt::print("about {:.0f} s left\n", *status.seconds_left);
  }
  fmt::print("started {}, last change {}\n", base::Visible(status.started_at),
             base::Visible(status.updated_at));
  if (!status.detail.empty()) fmt::print("{}\n", base::Visible(status.detail, true));
  return ExitCode::kAccept;
}

}  // namespace upgrade_gate::cli
