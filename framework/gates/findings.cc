#include "framework/gates/findings.h"

#include "framework/base/result.h"

namespace upgrade_gate::gates {
namespace {

constexpr auto kProvenance = plan::GateKind::kProvenance;
constexpr auto kFailures = plan::GateKind::kFailures;
constexpr auto kThroughput = plan::GateKind::kThroughput;
constexpr auto kNative = plan::GateKind::kNative;
constexpr auto kAny = std::optional<plan::GateKind>();
constexpr auto kPass = Verdict::kPass;
constexpr auto kFail = Verdict::kFail;
constexpr auto kOpen = Verdict::kInconclusive;

// A pin that could not be proved leaves the relative gates alone: nothing says
// that something else was measured, and provenance cannot pass with it.
// The strength of an identity, weakest last: what was hashed as it was started gives no
// finding, the hash of a file and a declared claim pass and are told, a claim without a
// declaration is undecided.
constexpr FindingRow kTable[] = {
    {Finding::kNone, "none", "pass", kAny, kPass, false, false},
    {Finding::kRegression, "regression", "regression", kAny, kFail, false, false},
    {Finding::kGainMissed, "gain_missed", "the demanded gain was not reached", kThroughput, kFail,
     false, false},
    {Finding::kOverThreshold, "over_threshold", "the limit is broken", kAny, kFail, false, false},
    {Finding::kOverBudget, "over_budget", "over the budget", kFailures, kFail, false, false},
    {Finding::kUndecided, "undecided", "undecided", kAny, kOpen, false, false},
    {Finding::kTooFewRounds, "too_few_rounds", "too few rounds for an interval", kAny, kOpen, false,
     false},
    {Finding::kFailuresInCase, "failures_in_case", "requests of the case failed", kAny, kOpen,
     false, false},
    {Finding::kNotMeasured, "not_measured", "not measured as planned", kAny, kOpen, false, false},
    {Finding::kDrift, "drift", "the baseline drifted while the candidate was measured", kAny, kOpen,
     false, false},
    {Finding::kOutputDiffers, "output_differs", "the arms delivered different numbers of tokens",
     kAny, kOpen, false, false},
    {Finding::kInputsDiffer, "inputs_differ", "the request bodies differ", kProvenance, kFail, true,
     false},
    {Finding::kInputsRepeated, "inputs_repeated", "one server was sent the same prompts twice",
     kProvenance, kFail, true, false},
    {Finding::kArgumentsDiffer, "arguments_differ", "not started with the plan's arguments",
     kProvenance, kFail, true, false},
    {Finding::kPinMismatch, "pin_mismatch", "not what the plan pins", kProvenance, kFail, true,
     false},
    {Finding::kPinUnproved, "pin_unproved", "a pin could not be proved", kProvenance, kOpen, false,
     false},
    {Finding::kIdentityMismatch, "identity_mismatch", "the server is not what the plan declares",
     kProvenance, kFail, true, false},
    {Finding::kIdentityUnproved, "identity_unproved", "nothing was proved of the server",
     kProvenance, kOpen, false, false},
    {Finding::kIdentityClaimed, "identity_claimed", "claimed by the server, not proved",
     kProvenance, kPass, false, false},
    {Finding::kIdentityOfFile, "identity_of_file", "proved of the image's file alone", kProvenance,
     kPass, false, false},
    {Finding::kClientChanged, "client_changed", "measured by different clients", kProvenance, kFail,
     true, false},
    {Finding::kPathDiffers, "path_differs", "an execution path differs, and no change is declared",
     kProvenance, kFail, false, false},
    {Finding::kChangeMissed, "change_missed", "a declared change did not come true", kProvenance,
     kFail, false, false},
    {Finding::kChangeUnproved, "change_unproved",
     "whether a declared change came true is not known", kProvenance, kOpen, false, false},
    {Finding::kHostsDiffer, "hosts_differ", "rounds of different hosts are never pooled",
     kProvenance, kFail, true, true},
    {Finding::kGpusDiffer, "gpus_differ", "rounds of different GPUs are never pooled", kProvenance,
     kFail, true, true},
    {Finding::kClientBound, "client_bound", "the client hurt the measurement", kAny, kOpen, true,
     true},
    {Finding::kThrottled, "throttled", "a GPU was slowed down while it was measured", kAny, kOpen,
     true, true},
    {Finding::kLoadNotDelivered, "load_not_delivered", "the asked load was not put on the server",
     kAny, kOpen, true, true},
    {Finding::kNotRecorded, "not_recorded", "what must be equal was not recorded", kProvenance,
     kOpen, true, false},
    {Finding::kExpectationFailed, "expectation_failed", "an expectation of the test failed",
     kNative, kFail, false, false},
    {Finding::kNoResult, "no_result", "its test left no result", kNative, kOpen, false, false},
};

}  // namespace

const FindingRow& RowOf(Finding finding) {
  for (const FindingRow& row : kTable) {
    if (row.finding == finding) return row;
  }
  UG_CHECK(false && "a finding without a row");
  return kTable[0];
}

std::optional<Finding> FindingNamed(std::string_view name) {
  for (const FindingRow& row : kTable) {
    if (row.name == name) return row.finding;
  }
  return std::nullopt;
}

std::string_view Name(Finding finding) {
  return RowOf(finding).name;
}
std::string_view Describe(Finding finding) {
  return RowOf(finding).description;
}

}  // namespace upgrade_gate::gates
