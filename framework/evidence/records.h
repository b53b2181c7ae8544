// What capture writes about requests, rounds and boots: plain values.
//
// Times are nanoseconds from the round's start on a monotonic clock, absent
// when the moment never came. Every record carries its schema version on disk.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/digest.h"
#include "framework/evidence/failure_kind.h"

namespace upgrade_gate::evidence {

inline constexpr int kSchema = 1;

enum class Phase { kWarmup, kFormal, kDiagnostic };
std::string_view Name(Phase phase);

struct RequestTimes {
  // When the request should have started: for a closed loop, when its slot became free.
  std::optional<base::Nanoseconds> scheduled;
  std::optional<base::Nanoseconds> sent;        // handed to the transport
  std::optional<base::Nanoseconds> first_byte;  // of the response's body
  // First output of any kind (text, reasoning, a piece of a tool call); of a stream only.
  std::optional<base::Nanoseconds> first_token;
  std::optional<base::Nanoseconds> first_text;  // first nonempty text: the TTFT stamp
  std::optional<base::Nanoseconds> last_token;  // last output of any kind: where E2E ends
  std::optional<base::Nanoseconds> done;        // the stream terminator; of a stream only
  std::optional<base::Nanoseconds> closed;      // the end of the response
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
};

struct Failure {
  FailureKind kind = FailureKind::kTransport;
  std::string detail;  // the evidence for it, shortened and made visible
};

struct RequestRecord {
  int index = 0;  // position in the round, from 0; the same in both arms
  base::Sha256Hex body_sha256;
  base::Sha256Hex prompt_sha256;             // what a replay holds fixed (PromptFingerprint)
  std::optional<std::int64_t> input_tokens;  // of the prompt; absent: not known to us
  std::int64_t output_tokens = 0;            // asked for
  RequestTimes times;
  std::optional<int> http_status;
  std::optional<Usage> usage;
  std::string finish_reason;         // empty when none came
  bool streamed = true;              // asked for as a stream
  std::int64_t text_bytes = 0;       // of all choices' text
  std::int64_t reasoning_bytes = 0;  // likewise
  // The name that the reasoning text came under: a contract with its readers, so
  // that a change of it between arms shows. Empty: none came.
  std::string reasoning_field;
  std::int64_t tool_calls = 0;
  bool empty_allowed = false;      // the case accepts an answer without any output
  std::int64_t chunks = 0;         // events that carried output
  std::optional<Failure> failure;  // absent: accepted
  std::vector<std::string> notes;  // recorded, shown, not failing

  bool accepted() const { return !failure.has_value(); }
};

// Why a round or a boot ended before its plan; kNone when it did not.
enum class StopReason {
  kNone,
  kGuard,
  kServiceLost,
  kInterrupted,
  kDeadline,
  kIdentity,        // what answered is not, or no longer, what it should be
  kInfrastructure,  // what runs the server ended it (its engine, or somebody through it)
};
std::string_view Name(StopReason reason);
std::optional<StopReason> StopReasonFrom(std::string_view name);

// What the client knows of its own part in a round's numbers.
struct ClientHealth {
  // Closed loop: requests in flight, on average from the end of the ramp until
  // the last was sent. Open loop: requests a second, by the schedule and as sent.
  bool open_loop = false;
  double asked = 0;
  std::optional<double> delivered;  // absent: too little was sent to say
  int held_back = 0;                // open loop: sends that waited for the most in flight
  // Sent after it was scheduled: the value that at most 1 % of the sends are
  // above, and never a single outlier of several.
  base::Nanoseconds send_late_p99{};
  std::int64_t reads = 0;            // looks at a socket that found text
  std::int64_t inexact_reads = 0;    // several texts, over 5 ms after their one stamp
  std::int64_t unstamped_reads = 0;  // whose text the kernel gave no stamp for
  base::Nanoseconds lag_p99{};       // from the kernel's stamp to the client's read
  double cpu_share = 0;              // of the busiest thread; 1 is a whole core
  int threads = 1;
  int new_connections = 0;  // made while measuring
  base::Nanoseconds connect_max{};
  std::int64_t retransmits = 0;  // TCP segments that the client sent again
  // Of the round, the share in which anybody on the client's machine waited for a CPU;
  // absent where the kernel does not tell.
  std::optional<double> cpu_pressure = {};
};

// What is known of one thing about a server or its host.
enum class FactState {
  kPresent,
  kAbsent,   // proved not to exist
  kUnknown,  // nothing told; never equal to anything
};
std::string_view Name(FactState state);

struct Fact {
  std::string name;  // "attention_backend"
  FactState state = FactState::kUnknown;
  std::string value;  // of a present one; otherwise empty
  // What told: "log line 1204", "/version", "probe"; of an unknown one why it is.
  std::string source;
  // False: worth recording, and different by nature (a version, a cache's size).
  bool compared = true;
};

// A line of a server's log that its rules warn of.
struct LogWarning {
  std::string kind;         // "stall"
  std::int64_t count = 0;   // of such lines
  std::int64_t line = 0;    // the first one's number in the log, from 1
  std::string text, means;  // that line, made visible; what to make of it
};

struct RoundRecord {
  std::string case_name;
  std::string arm;
  int boot = 0;   // from 1, over the whole run
  int step = 0;   // which entry of the plan's order, from 1
  int round = 0;  // from 1, within the boot and case
  int planned = 0;
  int concurrency = 0;
  std::string started_at;  // UTC, for people
  // From the first scheduled moment to the end of the last response.
  base::Nanoseconds duration{};
  StopReason stopped = StopReason::kNone;
  std::string stop_detail;
  std::optional<ClientHealth> client;  // absent: measured by a client that did not say
  // How a GPU was slowed down in it; not empty: its numbers are not the server's.
  std::string throttled;
  bool superseded = false;              // kept, counted, not judged: its case was measured again
  std::vector<RequestRecord> requests;  // those that were sent, by index
  std::vector<RequestRecord> warmup;    // only with round 1: sent before it, judged apart
};

// One start of an arm's server.
// How far an arm's pins prove what ran, strongest first.
enum class IdentityStrength {
  kContent,  // the bytes that were started were hashed: an executable, an image by its digests
  kFile,     // a file was hashed, and a program outside our reach started from it
  kClaimed,  // the server or a command of the user said so
};
std::string_view Name(IdentityStrength strength);

// What a started server turned out to be; compared between the start and the end
// of its boot.
struct ServerIdentity {
  std::string id;  // of the container, job or replica set; empty: a process
  // Facts that name it, as "image" -> "sha256:…"; sorted by name.
  std::map<std::string, std::string> values;
  // What the launcher was warned of, for people.
  std::vector<std::string> warnings;

  friend bool operator==(const ServerIdentity&, const ServerIdentity&) = default;
};

struct BootRecord {
  int number = 0;  // from 1
  int step = 0;    // from 1
  std::string arm;
  std::optional<int> resumes;  // the interrupted boot that this one continues
  // Identifies the machine that measured, and the one that served where that is another
  // or not known to be the same; rounds of different ones are never pooled.
  std::string host;
  std::string server_host;    // empty: `host`
  std::string client_sha256;  // the executable that measured
  // Indices of the GPUs that were allocated to it, ascending; empty: no allocation.
  std::vector<std::string> gpus;
  std::string started_at;  // UTC
  std::string version;     // what /version said; empty: unknown
  // What the launcher proved: `image` is one digest that stands for everything pinned.
  struct Pin {
    std::string name;  // "executable", "file profiles/old.yaml", "image"
    base::Sha256Hex declared;
    base::Sha256Hex found;  // empty: could not be proved
  };
  std::vector<Pin> pins;
  base::Sha256Hex identity;  // over all pins
  IdentityStrength strength = IdentityStrength::kContent;
  ServerIdentity server;
  // How `server` had changed by the end of the boot; empty: it had not.
  std::string identity_change;
  // Of the server and of its host (facts.json, host.json), by name.
  std::vector<Fact> facts, host_facts;
  std::vector<LogWarning> warnings;
  // Of the start-up, in order: "pull", "boot", "load", "ready".
  std::vector<std::pair<std::string, base::Nanoseconds>> stages;
  std::string compile_cache;  // "cold" or "warm"; empty: the arm has none
  // What was written to the server's log and how much of it is kept.
  std::uint64_t log_written = 0, log_kept = 0;
  base::Sha256Hex log_sha256;  // of what was kept; empty: not ended yet
  // The argv that was started, with the port replaced by $PORT.
  std::vector<std::string> argv;
  base::Nanoseconds ready_after{};  // from start to the first validated generation
  StopReason stopped = StopReason::kNone;
  std::string stop_detail;
  std::string exit;  // "exit code 0", "signal 9 (Killed)"; empty while running
};

// Of the whole capture.
struct CaptureRecord {
  std::string plan_name;
  base::Sha256Hex workload;  // digest of the resolved plan without gates, waivers, expected_changes
  base::Sha256Hex key;  // workload and client together: evidence is reused only if this matches
  std::string client_version;
  base::Sha256Hex client_sha256;
  std::string host;
  std::string started_at;  // UTC
  std::string sealed_at;   // UTC; MAX_AGE counts from here
  bool complete =
      false;  // every planned round is there exactly once, or its case was stopped by the guard
  std::vector<std::string> incidents;  // why not, and what else went otherwise than planned
};

}  // namespace upgrade_gate::evidence
