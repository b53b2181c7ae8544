// Verdicts and the decision: plain values, what gates give and reports read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/digest.h"
#include "framework/base/exit_code.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gates {

enum class Verdict { kPass, kFail, kInconclusive };
enum class Decision { kAccept, kReject, kInconclusive };
std::string_view Name(Verdict verdict);
std::string_view Name(Decision decision);

constexpr base::ExitCode ExitCodeOf(Decision decision) {
  switch (decision) {
    case Decision::kAccept:
      return base::ExitCode::kAccept;
    case Decision::kReject:
      return base::ExitCode::kReject;
    case Decision::kInconclusive:
      break;
  }
  return base::ExitCode::kInconclusive;
}

struct Interval {
  double lower = 0;
  double upper = 0;
};

// Why a gate said what it said, for machines; kNone for a plain pass.
// One table (findings.cc) says for each which gate it belongs to, what it makes
// of that gate, and whether it voids the relative gates of the cases concerned.
enum class Finding {
  kNone,
  kRegression,         // outside the margin, the interval says so
  kGainMissed,         // the demanded gain was not reached, the interval says so
  kOverThreshold,      // an absolute limit was broken
  kOverBudget,         // more failures than the budget allows
  kUndecided,          // the interval or the bounds include the threshold
  kTooFewRounds,       // no interval can be computed
  kFailuresInCase,     // a † case gets no gain
  kNotMeasured,        // a case, an arm, a round, a request or a value is missing
  kDrift,              // the baseline moved between its boots before and after the candidate
  kOutputDiffers,      // a big change, and the arms did not deliver the same number of tokens
  kInputsDiffer,       // request bodies or planned counts differ between the arms
  kInputsRepeated,     // one server was sent the same round of prompts twice
  kArgumentsDiffer,    // an arm was not started with the plan's arguments
  kPinMismatch,        // an arm was not what the plan pins
  kPinUnproved,        // a pin could not be proved
  kIdentityMismatch,   // a server identified itself as another than the plan declares
  kIdentityUnproved,   // nothing was proved or declared of what answered
  kIdentityClaimed,    // what answered said so itself, and said what the plan declares
  kIdentityOfFile,     // a file was hashed; what started from it was out of reach
  kClientChanged,      // arms were measured by different clients
  kPathDiffers,        // a fact of the execution path differs, undeclared
  kChangeMissed,       // a declared change did not come true
  kChangeUnproved,     // whether a declared change came true is not known
  kHostsDiffer,        // rounds of different hosts are never pooled
  kGpusDiffer,         // nor are rounds of different GPUs of one host
  kClientBound,        // the client hurt what it measured
  kThrottled,          // a GPU was slowed down while it was measured
  kLoadNotDelivered,   // the asked concurrency or rate was never put on the server
  kNotRecorded,        // what must be equal (host, client, inputs, a boot) was not recorded
  kExpectationFailed,  // a native gate's test failed on something else than a measuring matcher
  kNoResult,           // a native gate's test left no result of this evidence and plan
};
std::string_view Name(Finding finding);
// "the demanded gain was not reached": for people.
std::string_view Describe(Finding finding);

// A gate over a shape looks at several cases; each has its own part.
struct CaseResult {
  std::string case_name;
  Verdict verdict = Verdict::kInconclusive;
  Finding finding = Finding::kNotMeasured;
  std::string message;
  // In the gate's unit (tok/s or ms): medians over the rounds, for display. A
  // gate of the candidate alone has no baseline.
  std::optional<double> baseline, candidate;
  // The ratio candidate / baseline for relative gates, the value for absolute
  // ones; and its 90 % interval. Absent where the gate gives none († or void).
  std::optional<double> estimate;
  std::optional<Interval> interval;
  int rounds = 0;           // of the arm with fewer
  int boots = 0;            // likewise
  std::string reason = {};  // the last part of `message`: "pass", "undecided; about 7 rounds …"
};

struct GateResult {
  std::string id;
  plan::GateKind kind = plan::GateKind::kProvenance;
  plan::Severity severity = plan::Severity::kRequired;
  plan::Location location;  // in the plan
  Verdict verdict = Verdict::kInconclusive;
  Finding finding = Finding::kNotMeasured;
  // One line: case, both medians, ratio, interval, margin, and why.
  std::string message;
  // Of the case that decides: the first with the worst verdict. For failures the
  // rate and its two one-sided bounds.
  std::optional<double> estimate;
  std::optional<Interval> interval;
  std::optional<double> margin;  // the threshold in the unit of the estimate: 0.97, 900, 0.02
  int rounds = 0;
  int boots = 0;
  std::vector<CaseResult> cases;  // empty for failures and provenance
  // For people: the numbers, the formula with its source, the threshold, what to do.
  std::vector<std::string> explanation;
};

// The headline ratio of a case: output throughput, candidate / baseline.
struct CaseComparison {
  std::string name;
  std::string shape;
  bool dagger = false;  // at least one failed request in either arm: no gain is assigned
  struct Ratio {
    double estimate = 0;
    std::optional<Interval> interval;
    int rounds = 0;
    int boots = 0;
  };
  // Absent on a † case, where rounds of an arm are missing, and where the arms
  // must not be compared (other inputs, hosts, arguments, pins or clients).
  std::optional<Ratio> output_tokens_per_s;
};

struct Judgement {
  Decision decision = Decision::kInconclusive;
  std::string reason;     // one sentence: which gates decided
  bool complete = false;  // the orchestration did what the plan says
  std::vector<std::string> incidents;
  bool rejudged = false;        // by another plan than the one captured
  base::Sha256Hex evidence;     // digest of the evidence's SHA256SUMS
  base::Sha256Hex plan_sha256;  // of the plan file that judged
  std::vector<GateResult> gates;
  std::vector<CaseComparison> cases;
  // Said beside every decision: one boot an arm, not attributable to one change, …
  std::vector<std::string> conditions;
  std::vector<std::string> not_covered;
  base::Sha256Hex candidate_identity;  // empty: not proved
  base::Sha256Hex rollback_identity;   // the baseline's
};

}  // namespace upgrade_gate::gates
