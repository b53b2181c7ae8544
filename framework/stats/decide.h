// From an interval to a verdict: pass, fail, or inconclusive, and what would
// resolve the last. Pure functions; any thread.
//
// Nothing passes by absence: no interval, or a limit that is no limit, is
// always inconclusive.
#pragma once

#include <cstddef>
#include <optional>

#include "framework/stats/estimate.h"

namespace upgrade_gate::stats {

enum class Outcome { kPass, kFail, kInconclusive };

enum class Direction {
  kHigherIsBetter,  // throughput
  kLowerIsBetter,   // latency
};

// The ratio candidate / baseline at which a change uses up its margin: 1 - margin
// where higher is better, 1 + margin where lower is better. `margin` is the
// allowed worsening as a share (0.03 = 3 %); a demanded improvement g is a
// margin of -g. No value if the limit is not finite and above zero: a loss of
// 100 % cannot be exceeded, so it is no gate.
std::optional<double> RelativeLimit(Direction direction, double margin);

// kHigherIsBetter: pass if the whole interval is above the limit, fail if it is
// wholly below, else inconclusive; kLowerIsBetter is the mirror. An end that
// lies on the limit is inconclusive. Each of pass and fail is wrong with
// probability alpha at most (Schuirmann 1987, one side of the two one-sided tests).
Outcome Decide(const Estimate& estimate, Direction direction, double limit);

// Decide against RelativeLimit(direction, margin).
Outcome DecideRelative(const Estimate& ratio, Direction direction, double margin);

struct Resolution {
  enum class Kind {
    kDecided,         // the interval does not contain the limit
    kRounds,          // `rounds` in all, in the boots at hand
    kBoots,           // `boots` in all in each arm
    kBootNoiseAlone,  // no number of rounds in one boot resolves this; `boots` an arm might
    kOnTheLimit,      // the estimate is the limit: nothing resolves this
    kBeyondCap,       // more units than the cap
    kUnknown,         // no spread to calculate with: no data, or one unit
  };
  Kind kind = Kind::kUnknown;
  std::optional<std::size_t> rounds;
  // With kBootNoiseAlone from the assumed boot noise and the rounds a boot at
  // hand; empty if beyond the cap.
  std::optional<std::size_t> boots;
};

// How many units would resolve an inconclusive verdict if estimate and noise
// stayed as seen: the smallest n whose half-width is below the distance of the
// estimate from the limit. The estimate will not stay, so this is about an even
// chance, not a promise. kBootMeans counts boots, the other methods rounds.
Resolution RoundsToResolve(const Estimate& estimate, double limit, std::size_t cap = 1000);

}  // namespace upgrade_gate::stats
