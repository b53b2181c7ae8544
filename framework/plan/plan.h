// plan.yaml as written (Plan) and as it will be run (ResolvedPlan).
//
// Parse → resolve → `const ResolvedPlan&`. The structs are plain aggregates;
// everything they may hold has been checked by ParsePlan and Resolve. A new
// field costs the struct, its row in the decoder and a test.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/base/digest.h"
#include "framework/base/units.h"
#include "framework/evidence/failure_kind.h"
#include "framework/evidence/summary.h"

namespace upgrade_gate::plan {

// 1-based; 0 where a value is a default that no line of the file gives.
struct Location {
  int line = 0;
  int column = 0;
};

enum class LauncherKind {
  kProcess,   // a local executable
  kDocker,    // an image, by a container engine
  kCommand,   // whatever the user's commands start: a job, a pod, another engine
  kEndpoint,  // a server that someone else runs
};
enum class PullPolicy { kNever, kMissing };
enum class ArmRole { kBaseline, kCandidate, kAttribution };
std::string_view Name(LauncherKind kind);
std::string_view Name(PullPolicy policy);
std::string_view Name(ArmRole role);

struct EnvironmentValue {
  // Exactly one: a literal, or the name of a variable of the runner's
  // environment, read at boot and never written anywhere.
  std::optional<std::string> literal;
  std::optional<std::string> from_environment;
};
using Environment = std::map<std::string, EnvironmentValue>;

struct PinnedFile {
  std::string path;  // as written; relative to the plan's folder
  base::Sha256Hex sha256;
};

struct Mount {
  std::string source;
  std::string target;
  bool read_only = true;
};

struct Ulimit {
  std::string name;                 // "memlock"
  std::int64_t soft = 0, hard = 0;  // -1: unlimited
};

// Of the launcher docker, beside what it shares with others.
struct DockerSettings {
  std::string network = "host";  // "host", "bridge" or the name of a network
  std::uint64_t shm_bytes = 0;   // 0: the engine's default
  std::vector<Ulimit> ulimits;
  std::string user;                                    // "uid[:gid]"; empty: the image's
  std::optional<std::vector<std::string>> entrypoint;  // absent: the image's
  std::vector<std::string> devices, group_add, security_opt, cap_add;  // as AMD's GPUs need them
  // A folder in the container that keeps what an arm compiled, from boot to boot of
  // the same arm; empty: nothing is kept.
  std::string compile_cache;
};

// Of the launcher command: argv, never a shell. An element $COMMAND stands for the
// arm's command; $PORT, $RUN, $BOOT, $ARM, $IMAGE and $IMAGE_FILE stand for values
// anywhere in an element.
struct CommandSettings {
  std::vector<std::string> start;     // its life is the server's
  std::vector<std::string> stop;      // empty: TERM to start's processes
  std::vector<std::string> cleanup;   // run when all is over, also by the watchdog
  std::vector<std::string> address;   // prints the server's URL; empty: http://127.0.0.1:$PORT
  std::vector<std::string> identity;  // prints a JSON object of texts; empty: none
  std::vector<std::string> logs;      // more files whose lines belong to the server's log
};

// Of the launcher endpoint.
struct EndpointSettings {
  std::string identity_header;        // of every answer; empty: none
  std::vector<std::string> identity;  // argv that prints a JSON object of texts; empty: none
  std::string ca_file;                // PEM file, relative to the plan; empty: the system's
  // The variable of the runner's environment that holds the bearer token; empty: none.
  std::string token_variable;
};

// How long each part of a start may take; absent: as long as `ready.timeout` lets.
struct StageLimits {
  std::optional<std::chrono::milliseconds> pull;   // an own deadline, 30 min unless given
  std::optional<std::chrono::milliseconds> boot;   // until something answers HTTP
  std::optional<std::chrono::milliseconds> load;   // until the model is served
  std::optional<std::chrono::milliseconds> ready;  // until a generation is accepted
};

// Log rules beyond those that ship: framework/server/log_rules.h
struct LogRulesSettings {
  std::vector<std::string> sets;  // names of shipped sets; empty: all that ship
  std::string file;               // of the user, relative to the plan; empty: none
};

// A command in or beside a started server whose output is a fact: `dependencies`,
// `gpu`, whatever the plan names. $URL, $ID (of the container or job), $BOOT and $ARM
// stand for values anywhere in an element.
struct FactProbe {
  std::string fact;
  std::vector<std::string> argv;
  bool compared = true;  // between the arms
};

struct Model {
  std::string served_name;
  std::string snapshot;                   // empty: not given
  std::optional<base::Sha256Hex> digest;  // of the snapshot
};

struct ServerSettings {
  LauncherKind launcher = LauncherKind::kProcess;
  // argv without the executable for `process`, the container's command for
  // `docker`; $PORT stands for the port and is left out of comparisons.
  std::vector<std::string> command;
  Environment env;
  std::chrono::milliseconds ready_timeout = std::chrono::minutes(10);
  std::chrono::milliseconds stop_timeout = std::chrono::seconds(30);
  // docker only
  std::vector<Mount> mounts;
  std::string gpus;  // "all" or a list of ids; empty: none
  std::string ipc;   // "host", "private"; empty: the engine's default
  PullPolicy pull = PullPolicy::kMissing;
  DockerSettings docker;
  CommandSettings command_launcher;
  EndpointSettings endpoint;
  StageLimits limits;
  LogRulesSettings log_rules;
  std::vector<FactProbe> fact_probes;
};

// One arm as written: what it adds to `server:` and to the arm it is `like`.
struct ArmOverlay {
  std::string name;
  Location location;
  std::optional<std::string> like;
  std::optional<ArmRole> role;
  std::optional<std::string> image;  // reference@sha256:… or oci:PATH@sha256:…
  std::optional<PinnedFile> image_file;
  std::optional<std::string> built_from;  // of the image file; written as `image` is
  std::optional<std::string> url;
  std::vector<std::string> before;
  std::map<std::string, std::string> identity;
  std::optional<PinnedFile> executable;
  std::optional<std::vector<PinnedFile>> files;
  // Applied to the inherited command in this order.
  // remove: the option, wherever it stands, and its value. The value is the next
  //   element if that does not begin with "--"; `--option=value` is one element.
  // replace: option -> new value, in either form; the option must stand in the
  //   command exactly once and have a value.
  // append: added at the end, as written.
  std::vector<std::string> remove;
  std::map<std::string, std::string> replace;
  std::vector<std::string> append;
  Environment env;
};

// One arm as it will be started.
struct Arm {
  std::string name;
  Location location;
  ArmRole role = ArmRole::kCandidate;
  // docker, command; empty otherwise. With docker also an OCI layout (oci_reference.h).
  std::string image;
  std::optional<PinnedFile> image_file;  // command: an image that is a file
  std::string built_from;                // of the image file; also an OCI layout
  std::string url;                       // endpoint: of the server
  std::vector<std::string> before;       // endpoint: argv run before each boot (switch the route)
  // command, endpoint: what the server must identify itself as, "version" -> "0.31.0"
  std::map<std::string, std::string> identity;
  std::optional<PinnedFile> executable;  // process
  std::vector<PinnedFile> files;         // process: other files whose digests are pinned
  std::vector<std::string> command;
  Environment env;
};

struct BootStep {
  std::string arm;
  Location location;
  std::vector<std::string> cases;  // resolved: never empty
  int rounds = 0;                  // resolved: at least 1
};

enum class Api { kCompletions, kChat };
std::string_view Name(Api api);
enum class PromptKind {
  kSyntheticTokens,  // token ids of an exact number
  kText,             // text of an exact number of tokens, by the server's own tokenizer
  kFile,             // prompts or whole bodies of the user's
};
std::string_view Name(PromptKind kind);
enum class PromptFormat {
  kJsonl,
  kShareGpt,
  kAiperf
};  // of a file: fixtures/prompts/prompt_file.h
std::string_view Name(PromptFormat format);

struct Prompts {
  PromptKind kind = PromptKind::kSyntheticTokens;
  std::uint64_t seed = 0;
  // Token ids are drawn from [first_id, first_id + id_count), without the
  // excluded ones: above the special ids and below the vocabulary of every model
  // that people serve.
  std::int64_t first_id = 1000;
  std::int64_t id_count = 20000;
  std::vector<std::int64_t> excluded_ids = {};  // ascending, within the range
  // Synthetic tokens only. The tokens that all prompts of a case begin with, as
  // a system prompt; less than any input.
  std::int64_t shared_prefix = 0;
  // Synthetic tokens only. Requests come as conversations of so many turns, each
  // a longer prefix of the same tokens; the last has all input tokens.
  int turns = 1;
  // False: every round sends the prompts of the first again.
  bool fresh = true;
  // Chat with text only: so many images a message.
  int images = 0;
  int image_pixels = 64;  // width and height
  // File only.
  PinnedFile file = {};
  PromptFormat format = PromptFormat::kJsonl;
};

// All sampling fields are always sent: a model's own defaults never decide.
struct Sampling {
  double temperature = 0;
  double top_p = 1;
  std::int64_t seed = 1;
  std::int64_t top_k = -1;  // all
  double min_p = 0;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  double repetition_penalty = 1;
};

// Which irregularities of a response fail it and which are only noted: the table
// is in framework/load/acceptance.cc.
enum class Acceptance { kStrict, kLenient };
std::string_view Name(Acceptance profile);

// How long an output is: exactly as asked for, or to the model's own end and at
// most as long.
enum class OutputStop { kFixed, kNatural };
std::string_view Name(OutputStop stop);

// Of which requests the evidence holds the raw bytes of the response.
enum class KeepStreams { kFailed, kAll };
std::string_view Name(KeepStreams keep);

struct Guard {
  std::optional<int> consecutive_failures;  // of formal requests of one case; absent: no guard
};

// Open-loop load: requests come when they come, whatever became of the others.
enum class Arrivals { kConstant, kPoisson };
std::string_view Name(Arrivals arrivals);

struct OpenLoop {
  base::RequestsPerSecond rate;
  Arrivals arrivals = Arrivals::kConstant;
  std::chrono::milliseconds ramp{};  // the rate grows evenly from 0 over it
  // One more than that is sent late, and the load counts as not delivered.
  int max_in_flight = 1000;
};

struct Case {
  std::string name;
  Location location;
  // Of the workload, unless the case says otherwise.
  Api api = Api::kCompletions;
  Prompts prompts;
  Sampling sampling;
  std::int64_t input_tokens = 0;  // with prompts from a file: not known, 0
  std::int64_t output_tokens = 0;
  OutputStop stop = OutputStop::kFixed;
  bool allow_empty_output = false;  // an answer without text, reasoning or tool call is accepted
  // Closed loop: requests kept in flight. With `open`, 0.
  int concurrency = 0;
  std::optional<OpenLoop> open;
  int requests = 0;  // of a round; `duration` in the file gives it by the rate

  // The most requests that may be in flight at once.
  int most_in_flight() const { return open ? open->max_in_flight : concurrency; }
  // Requests that will be in flight soon after the start: the concurrency, or as
  // many as arrive in a second.
  int early_in_flight() const;
  std::string shape;  // a free label that gates select by; empty: none
};

struct Workload {
  Api api = Api::kCompletions;
  Prompts prompts;
  Sampling sampling;
  Acceptance acceptance = Acceptance::kStrict;
  KeepStreams keep_streams = KeepStreams::kFailed;
  int rounds = 3;
  // Requests before the first round of each case in each boot; absent: as many
  // as Case::early_in_flight.
  std::optional<int> warmup_requests;
  Guard guard;
  std::chrono::milliseconds request_timeout = std::chrono::minutes(10);
  std::chrono::milliseconds stall_limit = std::chrono::seconds(120);
  std::uint64_t arrivals_seed = 1;  // of the open loops' arrivals, and of nothing else
  std::vector<Case> cases;
};

// The assumed standard deviation between boots of one arm while it has one boot.
struct BootNoise {
  base::Percent value{1.0};
  std::string reason;  // required for 0 %
};

struct ExpectedChange {
  std::string fact, from, to, reason;
};

enum class GateKind { kThroughput, kLatency, kFailures, kProvenance, kNative };
enum class Severity { kRequired, kAdvisory };
std::string_view Name(GateKind kind);
std::string_view Name(Severity severity);

// Which cases a gate looks at: one case, all of one shape, or (neither) all.
struct Selection {
  std::optional<std::string> case_name;
  std::optional<std::string> shape;
};

enum class OnFailures { kInconclusive, kAdvisory };

// `confidence` of a measuring gate is one-sided: how sure a pass and a fail each
// are. An interval has that much on each side, 95 % makes a 90 % interval.

// Exactly one of the thresholds.
struct ThroughputGate {
  std::optional<base::Percent> min_gain;
  std::optional<base::Percent> max_loss;
  std::optional<base::TokensPerSecond> min;            // absolute, of one arm
  std::string arm;                                     // of `min`; empty: the candidate
  OnFailures on_failures = OnFailures::kInconclusive;  // what a † case makes of max_loss
  base::Percent confidence{95};
};

// Exactly one of the thresholds.
struct LatencyGate {
  evidence::Metric metric = evidence::Metric::kTtft;
  int percentile = 95;  // one of evidence::kPercentiles
  std::optional<base::Percent> max_increase;
  std::optional<std::chrono::microseconds> max;  // absolute, of one arm
  std::string arm;                               // of `max`; empty: the candidate
  base::Percent confidence{95};
};

struct FailuresGate {
  std::optional<evidence::FailureKind> kind;  // absent: any kind
  std::string arm;                            // resolved: never empty
  base::Percent max_rate;
  base::Percent confidence{95};  // of the Clopper-Pearson bounds
};

struct ProvenanceGate {};

// A test of the gate binary, written in C++. Its result is what it left.
struct NativeGate {
  std::string test;  // GoogleTest's full name: "UpgradeTest.LongInputsGain", "All/Suite.Name/0"
};

struct Gate {
  // `name`, or derived by Resolve:
  //   throughput.<case|shape>.min_gain, .max_loss or .min
  //   latency.<case|shape>.<metric>.p<percentile>, and .max when absolute
  //   failures.<kind|any>.<arm>[.<case|shape>]
  //   provenance
  // A native gate has its `name`, by default the test's.
  std::string id;
  Location location;
  Severity severity = Severity::kRequired;
  Selection selection;
  std::variant<ThroughputGate, LatencyGate, FailuresGate, ProvenanceGate, NativeGate> rule;

  GateKind kind() const;
};

// What the file says.
struct Plan {
  // The place of a value by its path ("gates[1].case"), for messages about it;
  // empty in a plan that was not read from a file.
  std::map<std::string, Location> locations;

  std::string name;
  Model model;
  ServerSettings server;
  std::vector<ArmOverlay> arms;
  std::vector<BootStep> order;  // cases empty / rounds 0 where the file does not say
  BootNoise boot_noise;
  // Of a whole capture; then the watchdog ends what was started. Absent: none.
  std::optional<std::chrono::milliseconds> deadline;
  Workload workload;
  std::vector<ExpectedChange> expected_changes;
  std::vector<std::string> not_covered;
  std::vector<Gate> gates;
};

// What will be run: overlays merged, defaults filled in, every name resolved.
struct ResolvedPlan {
  std::string name;
  Model model;
  ServerSettings server;  // command and env are in the arms
  std::vector<Arm> arms;
  std::vector<BootStep> order;
  BootNoise boot_noise;
  // Of a whole capture; then the watchdog ends what was started. Absent: none.
  std::optional<std::chrono::milliseconds> deadline;
  Workload workload;
  std::vector<ExpectedChange> expected_changes;
  std::vector<std::string> not_covered;
  std::vector<Gate> gates;

  const Arm* FindArm(std::string_view arm) const;
  const Case* FindCase(std::string_view case_name) const;
  const Gate* FindGate(std::string_view id) const;
  // The arm of that role; absent where the plan has none.
  const Arm* baseline() const;
  const Arm* candidate() const;
  // The cases a gate looks at, in the plan's order; never empty after Resolve.
  std::vector<const Case*> Select(const Selection& selection) const;
  int warmup_requests(const Case& of) const;
  // The most rounds of the case that a boot measures.
  int rounds(const Case& of) const;
};

}  // namespace upgrade_gate::plan
