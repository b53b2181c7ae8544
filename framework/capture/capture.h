// Runs a plan: boots its arms in order, drives the paired load, records
// everything and seals it. Resumes what an earlier call left unfinished.
//
// One thread; blocks until done. Everything it touches comes in by reference
// and must outlive the call.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/capture/host_lock.h"
#include "framework/evidence/layout.h"
#include "framework/evidence/records.h"
#include "framework/load/completion_request.h"
#include "framework/load/tokenizer.h"
#include "framework/load/transport.h"
#include "framework/plan/plan_file.h"
#include "framework/server/host.h"
#include "framework/server/launcher.h"

namespace upgrade_gate::capture {

// Who measures. Part of the evidence's key: another client is another experiment.
struct Client {
  std::string version;
  base::Sha256Hex sha256;  // of the running executable
  std::string host;
};

// `count` prompts of a case's phase and round; the tokenizer is the server's.
using PromptSource = std::function<base::Result<std::vector<load::Prompt>>(
    const plan::Case&, evidence::Phase, int round, int count, load::Tokenizer&)>;
// One for each boot and thread, for at most that many connections.
using TransportFactory =
    std::function<base::Result<std::unique_ptr<load::Transport>>(int max_connections)>;

// Moments at which a test may end the process.
enum class Moment { kMidRound, kBeforeRename, kBetweenBoots, kBeforeSeal };

struct Environment {
  base::Clock& clock;
  server::Launcher& launcher;
  TransportFactory make_transport;
  PromptSource prompts;
  // Called before anything is booted: an error if the prompts cannot be had.
  std::function<base::Status()> check_prompts = [] { return base::Status(); };
  Client client;
  std::vector<std::string> gpus;  // allocated to this capture; empty: no allocation
  server::HostReader host = {};   // the machine that the servers run on
  std::string run_id;             // the same that the watchdog knows
  // From then on watchdogs end what belongs to the run; absent: it has no deadline.
  std::optional<base::Instant> watched_until = {};
  HostLockOptions host_lock;  // held while servers may run
  // Given the lock's descriptor, for whoever outlives this process and still ends its servers.
  std::function<base::Status(int)> share_host_lock = [](int) -> base::Status { return {}; };
  std::string redact;  // a secret that is sent; the evidence shows stars for it. Empty: none
  std::function<bool()> interrupted;            // asked often; true ends the capture cleanly
  std::function<void(const std::string&)> say;  // one progress line, for people
  std::function<void(Moment)> at = [](Moment) {};
};

enum class Outcome {
  kSealed,      // measured, or resumed and finished, and sealed
  kReused,      // sealed evidence of the same key was there and its seal holds
  kIncomplete,  // sealed, but the orchestration is not what the plan says
};

struct CaptureResult {
  Outcome outcome = Outcome::kSealed;
  base::Sha256Hex evidence;            // digest of SHA256SUMS
  std::vector<std::string> incidents;  // of an incomplete capture
};

// Errors leave the evidence unsealed; the same call resumes it. Evidence of
// another key, and sealed evidence that is incomplete, is moved aside to
// evidence.1, evidence.2, … and never deleted.
base::Result<CaptureResult> Capture(const plan::LoadedPlan& plan, const evidence::Layout& layout,
                                    const Environment& environment);

// The key that evidence is reused by: the workload and the client that measured it.
base::Sha256Hex EvidenceKey(const base::Sha256Hex& workload, const base::Sha256Hex& client);

}  // namespace upgrade_gate::capture
