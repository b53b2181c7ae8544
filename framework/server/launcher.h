// Starting, watching and ending one server under test.
//
// A Launcher is one of the three seams of the project; the real ones live in
// fixtures/ (process, docker, command, endpoint), tests have a hand-written fake.
// Not thread-safe.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/evidence/image_proof.h"
#include "framework/evidence/records.h"
#include "framework/plan/plan.h"
#include "framework/server/log_capture.h"

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
  LogSettings log;
  // One line for people while something takes long (a pull).
  std::function<void(const std::string&)> say = [](const std::string&) {};
  // Asked while something takes long; true gives up.
  std::function<bool()> interrupted = [] { return false; };
};

// What the pins of an arm came to, before anything was started.
struct ArmIdentity {
  std::vector<evidence::BootRecord::Pin> pins;
  evidence::IdentityStrength strength = evidence::IdentityStrength::kContent;
  // Raw documents that prove it, for the boot's folder: name ("image/manifest.json")
  // and bytes.
  std::vector<std::pair<std::string, std::string>> documents = {};
  // How long it took to fetch; absent: it was there.
  std::optional<base::Nanoseconds> pull = {};
};

struct Exit {
  // Code 0, or ended by our own TERM with the signal's default action.
  bool clean = false;
  std::string description;  // "exit code 3", "signal 9 (Killed)"
  int killed = 0;           // after Stop: processes of it that TERM did not end and KILL had to
  // What runs it ended it, not we and not itself: a container engine that stopped, or
  // somebody who told it to. Never said on a guess.
  bool by_engine = false;
};

// A started server. The destructor ends it (KILL) if Stop was not called.
class RunningServer {
 public:
  virtual ~RunningServer() = default;
  // "http://127.0.0.1:41234"
  virtual const std::string& url() const = 0;
  // What it turned out to be, beyond the pins; asked after the start and before
  // the stop: a server whose answer changes in between is not the one that was measured.
  virtual base::Result<evidence::ServerIdentity> Identify() { return evidence::ServerIdentity{}; }
  // Of a container: the proof of the image that it runs, with what the engine said at
  // this moment added to what it said before; absent: the server is none.
  virtual base::Result<std::optional<evidence::ImageProof>> ProveImage(const std::string& when) {
    static_cast<void>(when);
    return std::optional<evidence::ImageProof>();
  }
  // Whether the folder that keeps what the arm compiled was empty: "cold" or "warm";
  // empty: there is none.
  virtual std::string compile_cache() const { return {}; }
  // The argv with the port put back to $PORT.
  virtual const std::vector<std::string>& argv() const = 0;
  // Nothing while it runs.
  virtual std::optional<Exit> exited() = 0;
  // Of one that has ended: waits a moment until what it wrote last is in the log.
  virtual void CatchUpLog() {}
  // Proves that whatever answers at url() is this server and no other process.
  virtual base::Status ProveOwnership() = 0;
  // TERM, then KILL after the deadline, then proof that nothing of it is left.
  virtual base::Result<Exit> Stop() = 0;
  virtual const LogCapture& log() const = 0;
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  // Whether its servers use this host's GPUs and memory.
  virtual bool serves_here() const { return true; }
  // Proves the arm's pins before anything starts. A mismatch is an error of kind
  // kUsage that names the file, both digests and what to do.
  virtual base::Result<ArmIdentity> CheckPins(const ServerSpec& spec) = 0;
  virtual base::Result<std::unique_ptr<RunningServer>> Start(const ServerSpec& spec) = 0;
};

}  // namespace upgrade_gate::server
