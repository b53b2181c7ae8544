// Where a running capture stands: status.json, for `upgrade-gate status`.
#pragma once

#include <optional>
#include <string>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/evidence/layout.h"

namespace upgrade_gate::capture {

struct Status {
  // "waiting", "booting", "measuring", "sealed", "incomplete", "interrupted", "failed"
  std::string state;
  std::string plan;
  std::string detail;  // the last thing said, or why it failed
  int boot = 0;        // 0: none yet
  std::string arm;
  std::string case_name;
  int round = 0;
  int rounds_done = 0;
  int rounds_planned = 0;
  int requests_done = 0;
  int requests_failed = 0;
  std::string started_at;              // UTC
  std::string updated_at;              // UTC
  std::optional<double> seconds_left;  // from the rounds done so far in this call
  int pid = 0;
  std::string run_id;  // marks what belongs to the run; empty: of an earlier version

  bool running() const { return state == "waiting" || state == "booting" || state == "measuring"; }
};

base::Status WriteStatus(const evidence::Layout& layout, const Status& status);
base::Result<Status> ReadStatus(const evidence::Layout& layout);

}  // namespace upgrade_gate::capture
