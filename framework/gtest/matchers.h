// Three-valued expectations on evidence, for EXPECT_THAT.
//
// Each is judged by the same code as the gate of its kind in a plan, so a
// matcher and a gate never disagree. One that cannot tell (undecided, not
// measured as planned, not to be compared) does not match, says "inconclusive"
// and why, and keeps the test from passing: Not(…) does not turn it into a pass,
// nor does AnyOf(…), which however asks no more once one of its matchers holds.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>

#include "framework/base/units.h"
#include "framework/evidence/failure_kind.h"
#include "framework/gates/judgement.h"

namespace upgrade_gate::gtest {

using base::Percent;
using base::TokensPerSecond;

// The candidate against the baseline in one case.
struct ArmPair {
  std::string case_name;
};
void PrintTo(const ArmPair& pair, std::ostream* out);

// One arm: in one case, or over all that it ran.
struct MeasuredArm {
  std::string name;
  std::optional<std::string> case_name;
  MeasuredArm In(std::string of) const { return {name, std::move(of)}; }
};
void PrintTo(const MeasuredArm& arm, std::ostream* out);

// What is demanded, and how sure a pass and a fail each must be: one-sided,
// above 50 % and below 100 %.
template <typename T>
struct LowerBound {
  T value;
  Percent confidence{95};
  LowerBound WithConfidence(Percent sure) const { return {value, sure}; }
};
template <typename T>
struct UpperBound {
  T value;
  Percent confidence{95};
  UpperBound WithConfidence(Percent sure) const { return {value, sure}; }
};
inline LowerBound<Percent> AtLeast(Percent value) {
  return {value};
}
inline LowerBound<TokensPerSecond> AtLeast(TokensPerSecond value) {
  return {value};
}
inline UpperBound<Percent> AtMost(Percent value) {
  return {value};
}
inline UpperBound<std::chrono::microseconds> AtMost(std::chrono::microseconds value) {
  return {value};
}

// Of the latencies of one round, the nearest rank; one of 50, 90, 95, 99.
enum class Percentile { k50 = 50, k90 = 90, k95 = 95, k99 = 99 };
inline constexpr Percentile P50 = Percentile::k50;
inline constexpr Percentile P90 = Percentile::k90;
inline constexpr Percentile P95 = Percentile::k95;
inline constexpr Percentile P99 = Percentile::k99;

using PairMatcher = testing::Matcher<const ArmPair&>;
using ArmMatcher = testing::Matcher<const MeasuredArm&>;

// --- candidate against baseline

// (candidate / baseline - 1) of the output throughput. A bound below zero is an
// allowed loss. A case with a failed request gets no gain: inconclusive.
PairMatcher OutputThroughputGain(LowerBound<Percent> gain);
PairMatcher OutputThroughputLoss(UpperBound<Percent> loss);
// The increase of a percentile: P95 of the candidate over P95 of the baseline.
// Time to the first text; time per output token after it; to the last token.
PairMatcher Ttft(Percentile percentile, UpperBound<Percent> increase);
PairMatcher Tpot(Percentile percentile, UpperBound<Percent> increase);
PairMatcher E2e(Percentile percentile, UpperBound<Percent> increase);
// Both arms were sent the same bytes, round by round, and every planned round is there.
PairMatcher SameInputs();

// --- one arm, in one case

ArmMatcher OutputThroughput(LowerBound<TokensPerSecond> rate);
ArmMatcher Ttft(Percentile percentile, UpperBound<std::chrono::microseconds> limit);
ArmMatcher Tpot(Percentile percentile, UpperBound<std::chrono::microseconds> limit);
ArmMatcher E2e(Percentile percentile, UpperBound<std::chrono::microseconds> limit);

// --- one arm, in one case or over all

// The share of sent formal requests that failed, by the exact bounds of Clopper
// and Pearson. EmptyOutputs: HTTP 200, a terminator, and no text at all.
ArmMatcher EmptyOutputs(UpperBound<Percent> rate);
ArmMatcher Failures(UpperBound<Percent> rate);  // of any kind
ArmMatcher Failures(evidence::FailureKind kind, UpperBound<Percent> rate);
// Every boot that measured proved to be this: the SHA-256 of an executable, a
// file or an image that the plan pins, with or without "sha256:" before it.
ArmMatcher PinnedBy(std::string digest);

}  // namespace upgrade_gate::gtest

// GoogleTest finds the printer of a type beside the type.
namespace upgrade_gate::gates {
void PrintTo(Verdict verdict, std::ostream* out);
void PrintTo(Finding finding, std::ostream* out);
}  // namespace upgrade_gate::gates
namespace upgrade_gate::base {
void PrintTo(const Percent& percent, std::ostream* out);
void PrintTo(const TokensPerSecond& rate, std::ostream* out);
}  // namespace upgrade_gate::base
