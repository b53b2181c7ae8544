// What a plan can see before it runs: the chance that an unchanged server
// passes, and the smallest change that a comparison detects. Pure functions;
// any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "framework/stats/decide.h"

namespace upgrade_gate::stats {

// A relative comparison as EstimateRatio will judge it, both arms alike.
struct PlannedComparison {
  std::size_t boots = 1;   // an arm
  std::size_t rounds = 3;  // a boot
  // sd of ln(candidate / baseline) of one pair of rounds inside fixed boots:
  // sqrt(2) times the noise of one arm's round.
  double round_noise = 0.0;
  // sd of one boot's level in log units: what the server does, and with one
  // boot an arm also what the interval is widened by.
  double boot_noise = 0.01;
  double alpha = 0.05;
};

// The chance that the interval lies wholly on the good side of a limit from
// which the true ratio is `distance_log` away (above 0: on the good side; 0:
// the chance of a false pass). Normal noise of both kinds.
//
// One boot an arm: with X the sd seen as a share of the true one,
//   E Phi((D - sqrt((t·s·X/sqrt(n))² + (z·sqrt(2)·b)²)) / sqrt(s²/n + 2b²)),
// integrated numerically over X; with b = 0 it is the noncentral t's
// P(T'(n-1, D·sqrt(n)/s) > t) (Johnson and Welch 1940). With k boots an arm the
// same with Welch's t over the boot means, integrated over the share of the
// noise that one arm shows.
//
// 0 if there is no interval (one boot an arm with one round). No value for no
// boots or rounds, noise that is negative or not finite, or alpha outside (0, 0.5).
std::optional<double> ChanceOfPass(const PlannedComparison& planned, double distance_log);

// The chance that a server that did not change (ratio 1) passes a gate of this margin.
std::optional<double> ChanceUnchangedPasses(const PlannedComparison& planned, Direction direction,
                                            double margin);

// The chance that all gates pass if their noise is independent: the product. No
// value for no gates or a chance outside [0, 1]. Gates that share boots are
// correlated, which makes the true chance larger.
std::optional<double> ChanceAllPass(std::span<const double> chances);

// The smallest distance from the limit, in log units, that is decided rightly
// with probability `power`: a loss that much beyond the margin fails that
// often. No value where ChanceOfPass has none or never reaches `power`.
std::optional<double> SmallestDetectableGap(const PlannedComparison& planned, double power = 0.8);

}  // namespace upgrade_gate::stats
