#include "framework/gates/explain.h"

#include <fmt/format.h>

#include <cmath>

#include "framework/base/text.h"
#include "framework/evidence/layout.h"
#include "framework/gates/wording.h"
#include "framework/stats/distributions.h"

namespace upgrade_gate::gates {
namespace {

std::string Precise(double value) {
  return fmt::format("{:.5g}", value);
}

std::string RoundText(const evidence::RoundSummary& round, const std::optional<double>& value) {
  std::string text = fmt::format("r{} {}", round.round, value ? Precise(*value) : "none");
  if (round.counts.failed() > 0) {
    text += fmt::format("† ({} of {} failed)", round.counts.failed(), round.counts.requests);
  }
  if (round.counts.requests < round.planned) {
    text += fmt::format(" ({} of {} sent, {})", round.counts.requests, round.planned,
                        evidence::Name(round.stopped));
  }
  return text;
}

void ExplainArm(const Series& series, const Quantity& quantity, std::vector<std::string>& lines) {
  std::string line;
  int boot = 0;
  for (std::size_t i = 0; i < series.rounds.size(); ++i) {
    const evidence::RoundSummary& round = *series.rounds[i];
    if (round.boot != boot) {
      boot = round.boot;
      line += fmt::format("{}boot {}: ", line.empty() ? "" : "; ", boot);
    } else {
      line += ", ";
    }
    line += RoundText(round, series.values[i]);
  }
  if (line.empty()) line = "no rounds";
  if (series.median) {
    line += fmt::format("; median {} {}", Precise(*series.median), quantity.unit);
  }
  lines.push_back(fmt::format("  {}: {}", Shown(series.arm), line));
}

// The i-th round alone of every boot that has it.
stats::ValuesByBoot OnlyRound(const stats::ValuesByBoot& values, std::size_t i) {
  stats::ValuesByBoot only;
  for (const auto& boot : values) {
    if (i < boot.size()) only.push_back({boot[i]});
  }
  return only;
}

std::string PairsText(const Explained& explained) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < explained.estimate.units; ++i) {
    const auto pair =
        stats::EstimateRatio(OnlyRound(explained.arms[1]->by_boot, i),
                             OnlyRound(explained.arms[0]->by_boot, i), explained.estimate.options);
    if (pair.point) parts.push_back(fmt::format("{:+.5f}", std::log(*pair.point)));
  }
  return fmt::format("  d = ln(candidate / baseline) by round: {}; mean {:+.5f}",
                     fmt::join(parts, ", "), std::log(*explained.estimate.point));
}

void ExplainSpread(const Explained& explained, std::vector<std::string>& lines) {
  const stats::Estimate& e = explained.estimate;
  if (!e.interval || !e.sd_log || !e.half_width_log) return;
  const double n = static_cast<double>(e.units);
  if (e.method == stats::Method::kBootMeans) {
    lines.push_back(fmt::format(
        "  unit: the mean of a boot; n = {} an arm at least, s = {:.5f} (of ln), {:.2f} degrees of "
        "freedom; half-width {:.5f}: boot-to-boot noise is measured",
        e.units, *e.sd_log, e.degrees_of_freedom.value_or(0), *e.half_width_log));
    return;
  }
  const double of_rounds = std::sqrt(
      std::max(0.0, *e.half_width_log * *e.half_width_log - e.boot_noise_log * e.boot_noise_log));
  std::string t = fmt::format("t({:.4g})", 1.0 - e.options.alpha);
  if (*e.sd_log > 0.0) t += fmt::format(" = {:.3f}", of_rounds * std::sqrt(n) / *e.sd_log);
  lines.push_back(fmt::format("  unit: the round; n = {}, s = {:.5f} (of ln), {}, t·s/√n = {:.5f}",
                              e.units, *e.sd_log, t, of_rounds));
  lines.push_back(
      fmt::format("  boot-to-boot noise assumed, not measured: b = {} a boot, its share of the "
                  "half-width {:.5f}",
                  PercentText(explained.plan.boot_noise.value.value), e.boot_noise_log));
  lines.push_back(fmt::format("  half-width √({:.5f}² + {:.5f}²) = {:.5f}", of_rounds,
                              e.boot_noise_log, *e.half_width_log));
}

std::string FormulaText(const stats::Estimate& e, Kind kind) {
  const std::string wrong =
      fmt::format("each side is wrong {:.4g} % of the time at most", 100 * e.options.alpha);
  const double z = stats::NormalQuantile(1.0 - e.options.alpha);
  switch (e.method) {
    case stats::Method::kPairedRounds:
      return fmt::format(
          "  formula: exp(mean(d) ± √((t·s/√n)² + ({:.3f}·b·w)²)), Student's t on rounds paired "
          "by number, w = √2 with one boot an arm; {}",
          z, wrong);
    case stats::Method::kRounds:
      return fmt::format(
          "  formula: exp(mean(ln v) ± √((t·s/√n)² + ({:.3f}·b)²)), Student's t on rounds; {}", z,
          wrong);
    case stats::Method::kBootMeans:
      return (kind == Kind::kRatio
                  ? "  formula: Welch's t interval of the difference of the mean ln of the boot "
                    "means; "
                  : "  formula: Student's t interval of the mean ln of the boot means; ") +
             wrong;
    case stats::Method::kNone:
      break;
  }
  return {};
}

// "90 %": two-sided.
std::string LevelText(const stats::Estimate& e) {
  return fmt::format("{:.4g} %", 100 * (1 - 2 * e.options.alpha));
}

void ExplainEstimate(const Explained& explained, std::vector<std::string>& lines) {
  const stats::Estimate& e = explained.estimate;
  if (!e.point) return;
  const bool ratio = explained.threshold.kind == Kind::kRatio;
  if (ratio && e.method == stats::Method::kPairedRounds) lines.push_back(PairsText(explained));
  ExplainSpread(explained, lines);
  std::string line = ratio
                         ? fmt::format(
                               "  ratio candidate / baseline {:.5f}, {} times the "
                               "baseline, a change of {} of the baseline",
                               *e.point, Ratio(*e.point), Change(*e.point))
                         : fmt::format("  level {} {}", Precise(*e.point), explained.quantity.unit);
  if (e.interval) {
    line += ratio ? fmt::format("; {} interval [{:.5f}, {:.5f}]", LevelText(e), e.interval->lower,
                                e.interval->upper)
                  : fmt::format("; {} interval [{}, {}]", LevelText(e), Precise(e.interval->lower),
                                Precise(e.interval->upper));
  }
  lines.push_back(std::move(line));
  if (auto formula = FormulaText(e, explained.threshold.kind); !formula.empty()) {
    lines.push_back(std::move(formula));
  }
}

// A big change is suspect first: what was checked before it is called one.
void ExplainBigChange(const Explained& explained, std::vector<std::string>& lines) {
  const stats::Estimate& e = explained.estimate;
  if (explained.threshold.kind != Kind::kRatio || !e.point || !IsBig(*e.point)) return;
  std::vector<std::string> arms;
  for (const Series* series : explained.arms) {
    std::int64_t tokens = 0;
    for (const auto* round : series->rounds) tokens += round->output_tokens;
    arms.push_back(fmt::format("{} {} output tokens of {} asked for, {} of {} requests failed",
                               Shown(series->arm), tokens,
                               explained.of.output_tokens * series->counts.requests,
                               series->counts.failed(), series->counts.requests));
  }
  lines.push_back(
      fmt::format("  a change of more than 25 % is suspect first; checked: {}; request "
                  "bodies identical round by round. Not checked here: prefix-cache "
                  "hits of the server",
                  base::JoinList(arms)));
}

std::string NextStep(const Explained& explained) {
  const CaseResult& result = explained.result;
  switch (result.finding) {
    case Finding::kNone:
      return "nothing to do";
    case Finding::kUndecided:
      return HowToResolve(explained.estimate, explained.threshold.limit) +
             "; or give each arm another boot in `order`, which measures the boot noise";
    case Finding::kTooFewRounds:
      return "set `rounds` to 3 or more, or give each arm a second boot in `order`";
    case Finding::kFailuresInCase:
      return "look at the failed requests first, then measure the case again";
    case Finding::kNotMeasured:
      return "see the incidents of the capture and the server's log; capture again";
    case Finding::kDrift:
      return "the machine changed while it was measured: measure again, or in the order baseline, "
             "candidate, candidate, baseline";
    case Finding::kRegression:
    case Finding::kGainMissed:
    case Finding::kOverThreshold:
      return "the interval excludes the threshold: more rounds will not change this; compare logs "
             "and settings of the two boots";
    default:
      break;
  }
  return "see the provenance of this run: the numbers are not of the experiment that the plan "
         "declares";
}

}  // namespace

bool IsBig(double ratio) {
  return std::abs(std::log(ratio)) > std::log(1.25);
}

std::string KindsText(const evidence::FailureCounts& counts) {
  std::vector<std::string> parts;
  for (const auto& [kind, count] : counts.by_kind) {
    if (count > 0) parts.push_back(fmt::format("{} {}", evidence::Name(kind), count));
  }
  return parts.empty() ? "none" : base::JoinList(parts);
}

std::vector<std::string> FailurePaths(const std::string& case_name, const Series& series) {
  std::vector<std::string> paths;
  for (const auto* round : series.rounds) {
    if (round->counts.failed() == 0) continue;
    paths.push_back(fmt::format("rounds/{}/{}-r{}/streams/", Shown(case_name),
                                Shown(evidence::Layout::BootName(round->boot, series.arm)),
                                round->round));
  }
  return paths;
}

std::string Basis(const stats::Estimate& estimate) {
  const bool ratio = estimate.baseline.boots > 0;
  const std::size_t candidate = estimate.candidate.boots;
  const std::size_t baseline = estimate.baseline.boots;
  std::string boots = Count(candidate, "boot");
  if (ratio) {
    boots = candidate == baseline
                ? boots + " an arm"
                : fmt::format("{} candidate and {} baseline boots", candidate, baseline);
  }
  std::string text =
      estimate.interval ? fmt::format("{} interval", LevelText(estimate)) : "no interval";
  const std::size_t rounds =
      estimate.method == stats::Method::kBootMeans
          ? (ratio ? std::min(estimate.candidate.rounds, estimate.baseline.rounds)
                   : estimate.candidate.rounds)
          : estimate.units;
  text += fmt::format(", {}, {}", Count(rounds, "round"), boots);
  if (estimate.method == stats::Method::kBootMeans) return text + ", boot noise measured";
  return text + fmt::format(", boot noise {} assumed",
                            PercentText(std::round(estimate.options.boot_noise * 1e8) / 1e6));
}

std::string HowToResolve(const stats::Estimate& estimate, double limit) {
  using ResolutionKind = stats::Resolution::Kind;
  const stats::Resolution resolution = stats::RoundsToResolve(estimate, limit);
  switch (resolution.kind) {
    case ResolutionKind::kRounds:
      return fmt::format("about {} rounds would resolve it at the noise seen", *resolution.rounds);
    case ResolutionKind::kBoots:
      return fmt::format("about {} boots an arm would resolve it at the noise seen",
                         *resolution.boots);
    case ResolutionKind::kBootNoiseAlone:
      return "no number of rounds in one boot can resolve it" +
             (resolution.boots ? fmt::format(", about {} boots an arm might", *resolution.boots)
                               : std::string());
    case ResolutionKind::kOnTheLimit:
      return "the estimate lies on the limit, so no number of rounds can resolve it";
    case ResolutionKind::kBeyondCap:
      return "not even 1,000 rounds would resolve it at the noise seen";
    case ResolutionKind::kDecided:
    case ResolutionKind::kUnknown:
      break;
  }
  return "the noise is not known, so neither is the number of rounds that would resolve it";
}

std::vector<std::string> Explain(const Explained& explained) {
  std::vector<std::string> lines;
  const Quantity& quantity = explained.quantity;
  const char* direction = quantity.direction == stats::Direction::kHigherIsBetter
                              ? "higher is better"
                              : "lower is better";
  lines.push_back(fmt::format("{}: {} in {}, {}", Shown(explained.of.name), quantity.label,
                              quantity.unit, direction));
  lines.push_back("  definition: " + quantity.definition);
  for (const Series* series : explained.arms) ExplainArm(*series, quantity, lines);
  ExplainEstimate(explained, lines);
  const Threshold& threshold = explained.threshold;
  lines.push_back(threshold.kind == Kind::kRatio
                      ? fmt::format("  threshold: {} of the baseline, a ratio of {}",
                                    threshold.text, Precise(threshold.limit))
                      : "  threshold: " + threshold.text);
  ExplainBigChange(explained, lines);
  for (const Series* series : explained.arms) {
    if (!series->dagger()) continue;
    lines.push_back(fmt::format("  † {}: {} of {} requests failed: {}; their raw streams: {}",
                                Shown(series->arm), series->counts.failed(),
                                series->counts.requests, KindsText(series->counts),
                                base::JoinList(FailurePaths(explained.of.name, *series))));
  }
  lines.push_back(fmt::format("  verdict: {} ({})", Name(explained.result.verdict),
                              Describe(explained.result.finding)));
  lines.push_back("  next: " + NextStep(explained));
  return lines;
}

}  // namespace upgrade_gate::gates
