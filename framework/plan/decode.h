// The sections of a plan, one function each; errors go to the context.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/plan/decoder.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::plan {

// What could not be read: nothing is said about what depends on it.
struct Incomplete {
  bool commands = false;  // server and arms: their merged commands are not known
  bool arm_names = false;
  bool order = false;
  bool case_names = false;
  bool gates = false;  // some gates are left out

  static Incomplete All() { return {true, true, true, true, true}; }
};

struct Decoded {
  Plan plan;
  Incomplete incomplete;
};

Decoded DecodePlan(const Node& root, Errors& errors);

// The launcher is absent if the plan does not say it rightly.
std::optional<LauncherKind> DecodeServer(const Value& value, ServerSettings* server);
void DecodeArms(const Value& value, std::optional<LauncherKind> launcher,
                std::vector<ArmOverlay>* arms);
// The keys of `server:` and of an arm that the launchers command and endpoint have of
// their own: read where they belong, refused elsewhere. The two functions read a pinned
// file and an image reference as other launchers' arms have them.
void DecodeLaunchers(Mapping& m, std::optional<LauncherKind> launcher, ServerSettings* server);
void DecodeLaunchedArm(Mapping& m, std::optional<LauncherKind> launcher, ArmOverlay* arm,
                       const std::function<void(const Value&, PinnedFile*)>& pinned_file,
                       const std::function<void(const Value&, std::optional<std::string>*)>& image);
void DecodeOrder(const Value& value, std::vector<BootStep>* order);
void DecodeWorkload(const Value& value, Workload* workload);
void DecodeGates(const Value& value, std::vector<Gate>* gates);

// The keys of `server:` that are the launcher docker's; after mounts and ipc.
void DecodeDocker(Mapping& m, ServerSettings* server);
void RefuseDocker(Mapping& m, std::string_view why);
void DecodeDeadlines(const Value& value, StageLimits* limits);
// Keys of the server.
void DecodeLogRules(const Value& value, LogRulesSettings* rules);
void DecodeFactProbes(const Value& value, std::vector<FactProbe>* probes);

// Shared by server and arms.
void DecodeEnvironment(const Value& value, Environment* env);
// Refuses an argv that carries a secret: the plan is copied into the evidence.
void RefuseSecrets(const Value& argv, const std::vector<std::string>& elements);
bool IsSecretOption(std::string_view option);

}  // namespace upgrade_gate::plan
