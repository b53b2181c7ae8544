// Interval estimates of a level (one arm) and of a ratio (candidate / baseline)
// from round values. Pure functions; any thread.
//
// Everything is averaged on the log scale, where noise is symmetric and a ratio
// and its inverse are treated alike. The unit of an estimate is what may be
// taken as independent: never a request, and a round only while an arm has one
// boot, because a level fixed at process start is shared by all its rounds.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace upgrade_gate::stats {

struct Interval {
  double lower = 0.0;
  double upper = 0.0;
};

// The values of one case in one arm: a vector a boot, in it a value a round, in
// the order of the rounds. All must be finite and above zero.
// A round without a value must not be left out, or later rounds pair wrongly:
// put 0 in its place, which leaves the whole case without an estimate.
using ValuesByBoot = std::vector<std::vector<double>>;

struct EstimateOptions {
  // One-sided error on each side; the interval is two-sided with 1 - 2·alpha.
  // Two looks at the data use 0.025 at each. In (0, 0.5).
  double alpha = 0.05;
  // Assumed sd of one boot's level, in log units (0.01 = 1 %). Widens the
  // interval only while boots are not the unit. At least 0.
  double boot_noise = 0.01;
};

enum class Method {
  kNone,          // no estimate; see Estimate::missing
  kRounds,        // level: one boot, the unit is the round
  kPairedRounds,  // ratio: an arm with one boot, the unit is the round, paired by index
  kBootMeans,     // level or ratio: two or more boots in every arm, the unit is the boot mean
};

// Why there is no interval, or not even a point.
enum class Missing {
  kNothing,        // point and interval are there
  kValues,         // an arm has no value, or no round has a partner
  kUsableValue,    // a value is zero, negative or not finite, or the interval is
  kSecondUnit,     // one unit has no spread: the point is there, the interval is not
  kUsableOptions,  // alpha or boot_noise outside its range
};

struct ArmUnits {
  std::size_t boots = 0;   // that had at least one round
  std::size_t rounds = 0;  // over all its boots
  // sd of the log of the boot means, the boot noise measured; two or more boots.
  std::optional<double> boot_sd_log;
};

// Invariant: `interval` implies `point`, both finite; Method::kNone implies neither.
struct Estimate {
  std::optional<double> point;  // exp of the mean log: a geometric mean, or a ratio of two
  std::optional<Interval> interval;
  Method method = Method::kNone;
  Missing missing = Missing::kValues;

  // Independent units: rounds, pairs of rounds, or for kBootMeans the boots of
  // the arm that has fewer.
  std::size_t units = 0;
  // sd of the log of one unit. For a ratio of boot means: of the difference of
  // one boot of each arm, sqrt(s_c² + s_b²).
  std::optional<double> sd_log;
  std::optional<double> degrees_of_freedom;
  std::optional<double> half_width_log;
  // The share of half_width_log that more rounds cannot lower, z·b·sqrt(sum of squared weights).
  double boot_noise_log = 0.0;
  // The interval rests on options.boot_noise (even if that is 0): the verdict
  // must say "boot-to-boot noise assumed, not measured".
  bool boot_noise_assumed = false;

  ArmUnits candidate;  // for a level: the arm
  ArmUnits baseline;   // for a level: none
  // Rounds without a partner at their index in the other arm; not used.
  std::size_t unpaired_rounds = 0;
  EstimateOptions options;
};

// The ratio candidate / baseline.
//
// An arm with one boot (kPairedRounds): d_i = ln(c_i / b_i) over the round
// indices that both arms have,
//   exp(mean(d) ± sqrt((t(1-alpha, n-1)·s/sqrt(n))² + (z(1-alpha)·b·w)²)),
// with Student's t (1908) for the rounds, and the assumed boot noise b. If an
// arm has one boot and the other several (baseline, candidate, baseline), the
// latter's value at an index is the arithmetic mean over its boots that have
// that round, and w² sums the squared weights of all boots in the estimate:
// w = sqrt(2) for one boot an arm, sqrt(1 + 1/2) for a full bracket.
//
// Two or more boots in each arm (kBootMeans): y = ln(arithmetic mean of the
// boot's rounds); Welch's interval (1947) for mean(y_c) - mean(y_b), with
// Satterthwaite's degrees of freedom (1946). Unpaired on purpose: what is fixed
// at process start is independent between boots, so pairing by boot index would
// gain nothing and halve the degrees of freedom (t = 6.3 in place of 2.9 for
// two boots an arm); a drift shared by neighbours makes this interval wider,
// not wrong; and it needs no equal counts, so a lost boot does not change the
// method. Not pooled, because a candidate may well be noisier than a baseline.
// Simulated false passes at alpha = 5 %: 2.8 % with two like boots an arm, 4.0 %
// with three; with a candidate four times as noisy 4.6 % (2 against 2 boots),
// 5.6 % (3 against 6), 7.3 % (2 against 6): give the noisier arm the more boots.
//
// All units equal (s = 0) is a width of zero next to the boot noise, by the formula.
Estimate EstimateRatio(const ValuesByBoot& candidate, const ValuesByBoot& baseline,
                       const EstimateOptions& options = {});

// The level of one arm, for absolute thresholds: the t interval of the mean of
// ln(value) over rounds, widened by z(1-alpha)·b, with one boot; of the log of
// the boot means, not widened, with two or more.
Estimate EstimateLevel(const ValuesByBoot& values, const EstimateOptions& options = {});

}  // namespace upgrade_gate::stats
