// Starting, watching and ending one server under test.
//
// A Launcher is one of the three seams of the project; the real ones live in
// fixtures/ (process; docker, command and endpoint will follow), tests have a
// hand-written fake. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/result.h"
#include "framework/evidence/records.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::server {

// What to start, all from the resolved plan.
struct ServerSpec {
  plan::Arm arm;
  plan::ServerSettings settings;
  std::filesystem::path plan_directory;  // relative paths start here; the server's working folder
  std::string run_id;                    // marks everything that belongs to this run
  int boot = 0;
  // Indices of the GPUs that this capture was allocated, the only ones the server
  // may use; empty: none were allocated, and what the plan says holds.
  std::vector<std::string> gpus;
  std::uint64_t log_cap_bytes = std::uint64_t{256} << 20;  // more is counted, not kept
};

struct Exit {
  // Code 0, or ended by our own TERM with the signal's default action.
  bool clean = false;
  std::string description;  // "exit code 3", "signal 9 (Killed)"
  int killed = 0;           // after Stop: processes of it that TERM did not end and KILL had to
};

// A started server. The destructor ends it (KILL) if Stop was not called.
class RunningServer {
 public:
  virtual ~RunningServer() = default;
  // "http://127.0.0.1:41234"
  virtual const std::string& url() const = 0;
  // The argv with the port put back to $PORT.
  virtual const std::vector<std::string>& argv() const = 0;
  // Nothing while it runs.
  virtual std::optional<Exit> exited() = 0;
  // Proves that whatever answers at url() is this server and no other process.
  virtual base::Status ProveOwnership() = 0;
  // TERM, then KILL after the deadline, then proof that nothing of it is left.
  virtual base::Result<Exit> Stop() = 0;
  // Everything it wrote, up to the cap, and its last lines made visible.
  virtual std::string log() const = 0;
  virtual std::vector<std::string> last_log_lines(std::size_t count) const = 0;
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  // Proves the arm's pins before anything starts. A mismatch is an error of kind
  // kUsage that names the file, both digests and what to do.
  virtual base::Result<std::vector<evidence::BootRecord::Pin>> CheckPins(
      const ServerSpec& spec) = 0;
  virtual base::Result<std::unique_ptr<RunningServer>> Start(const ServerSpec& spec) = 0;
};

}  // namespace upgrade_gate::server
