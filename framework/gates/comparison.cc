#include "framework/gates/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <utility>

#include "framework/base/text.h"
#include "framework/gates/client.h"
#include "framework/gates/explain.h"
#include "framework/gates/findings.h"
#include "framework/gates/kinds.h"
#include "framework/gates/provenance.h"
#include "framework/gates/wording.h"

namespace upgrade_gate::gates {
namespace {

struct Judged {
  CaseResult result;
  std::vector<std::string> explanation;
};

// Everything a case is judged by, collected before any rule is applied.
struct Matter {
  std::optional<Series> baseline;   // absent for a level
  std::optional<Series> candidate;  // of a level: its arm
  std::string missing_arm;          // the role the plan has no arm for
  std::vector<Problem> problems;

  std::vector<const Series*> arms() const {
    std::vector<const Series*> found;
    for (const auto* series : {&baseline, &candidate}) {
      if (*series) found.push_back(&**series);
    }
    return found;
  }
  bool dagger() const {
    const auto all = arms();
    return std::any_of(all.begin(), all.end(), [](const Series* s) { return s->dagger(); });
  }
  bool whole() const {
    const auto all = arms();
    return std::all_of(all.begin(), all.end(), [](const Series* s) { return s->coverage.whole(); });
  }
  const Problem* voiding(Kind kind) const {
    for (const Problem& problem : problems) {
      const FindingRow& row = RowOf(problem.finding);
      if (kind == Kind::kRatio ? row.voids_relative : row.voids_level) return &problem;
    }
    return nullptr;
  }
};

Matter Collect(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
               const plan::Case& of, const Quantity& quantity, const Threshold& threshold) {
  Matter matter;
  std::vector<std::string> names;
  const auto add = [&](const plan::Arm* arm, std::string_view role, std::optional<Series>& to) {
    if (arm == nullptr) {
      matter.missing_arm = role;
      return;
    }
    to = SeriesOf(plan, summary, of, arm->name, quantity);
    names.push_back(arm->name);
  };
  if (threshold.kind == Kind::kRatio) add(plan.baseline(), "baseline", matter.baseline);
  if (threshold.arm.empty()) {
    add(plan.candidate(), "candidate", matter.candidate);
  } else {
    add(plan.FindArm(threshold.arm), Shown(threshold.arm), matter.candidate);
  }
  matter.problems = FindProblems(plan, summary, {&of}, names);
  std::vector<Problem> faults = FindClientFaults(summary, of, names);
  std::move(faults.begin(), faults.end(), std::back_inserter(matter.problems));
  return matter;
}

stats::EstimateOptions OptionsOf(const plan::ResolvedPlan& plan, const Threshold& threshold) {
  // 95 % is the 0.05 of every table, and 1 - 0.95 is not.
  const double alpha = std::round((1.0 - threshold.confidence) * 1e9) / 1e9;
  return {.alpha = alpha, .boot_noise = plan.boot_noise.value.fraction()};
}

stats::Estimate EstimateOf(const plan::ResolvedPlan& plan, const Matter& matter,
                           const Threshold& threshold) {
  const stats::EstimateOptions options = OptionsOf(plan, threshold);
  if (matter.baseline) {
    return stats::EstimateRatio(matter.candidate->by_boot, matter.baseline->by_boot, options);
  }
  return stats::EstimateLevel(matter.candidate->by_boot, options);
}

std::string GapsText(const Matter& matter) {
  std::vector<std::string> texts;
  std::size_t left_out = 0;
  for (const Series* series : matter.arms()) {
    for (const std::string& gap : series->coverage.gaps) {
      if (texts.size() < 4) {
        texts.push_back(Shown(series->arm) + ": " + gap);
      } else {
        ++left_out;
      }
    }
  }
  if (left_out > 0) texts.push_back(fmt::format("{} more", left_out));
  return base::JoinList(texts);
}

std::string DaggerText(const Matter& matter) {
  std::vector<std::string> texts;
  for (const Series* series : matter.arms()) {
    texts.push_back(fmt::format("{} {} of {}", Shown(series->arm), series->counts.failed(),
                                series->counts.requests));
  }
  return "requests failed (" + base::JoinList(texts) + ")";
}

std::string Heading(const plan::Case& of, const Quantity& quantity, const Matter& matter) {
  const auto shown = [](const std::optional<Series>& series) {
    if (!series || !series->median) return std::string("not measured");
    return Value(*series->median) + (series->dagger() ? "†" : "");
  };
  std::string values = shown(matter.candidate);
  if (matter.baseline) values = shown(matter.baseline) + " → " + values;
  return fmt::format("{}: {} {} {}", Shown(of.name), quantity.label, values, quantity.unit);
}

std::string_view DirectionText(stats::Direction direction) {
  return direction == stats::Direction::kHigherIsBetter ? "higher is better" : "lower is better";
}

// "ratio 0.750 [0.745, 0.755] (90 % interval, …)", the denominator said.
std::string EstimateText(const stats::Estimate& estimate, const Quantity& quantity, Kind kind) {
  const auto number = [&](double v) { return kind == Kind::kRatio ? Ratio(v) : Value(v); };
  std::string text = kind == Kind::kRatio ? "candidate/baseline ratio " : "level ";
  text += number(*estimate.point);
  if (estimate.interval) {
    text += fmt::format(" [{}, {}]", number(estimate.interval->lower),
                        number(estimate.interval->upper));
  }
  if (kind == Kind::kLevel) text += " " + quantity.unit;
  return fmt::format("{} ({}; {})", text, Basis(estimate), DirectionText(quantity.direction));
}

bool SameOutput(const Matter& matter) {
  if (!matter.baseline || !matter.candidate) return true;
  for (const auto* b : matter.baseline->rounds) {
    for (const auto* c : matter.candidate->rounds) {
      if (b->round == c->round && b->output_tokens != c->output_tokens) return false;
    }
  }
  return true;
}

// Baseline, candidate, baseline: void if the two ends differ by more than two
// standard deviations of a difference of boots, |ln(A2/A1)| > 2·√2·b. With the
// declared b, never the spread of the rounds at hand: that would void about half
// of all brackets that did not drift.
std::string DriftText(const plan::ResolvedPlan& plan, const Matter& matter,
                      const Threshold& threshold) {
  if (!matter.baseline || !matter.candidate) return {};
  const Series& baseline = *matter.baseline;
  const Series& candidate = *matter.candidate;
  if (baseline.boots() < 2 || candidate.boots() != 1) return {};
  const int before = baseline.rounds.front()->boot;
  const int after = baseline.rounds.back()->boot;
  const int between = candidate.rounds.front()->boot;
  if (!(before < between && between < after)) return {};
  const double noise = plan.boot_noise.value.fraction();
  const auto drift = stats::EstimateRatio({baseline.by_boot.back()}, {baseline.by_boot.front()},
                                          OptionsOf(plan, threshold));
  if (!(noise > 0.0) || !drift.point) return {};
  if (std::abs(std::log(*drift.point)) <= 2.0 * std::numbers::sqrt2 * noise) return {};
  return fmt::format(
      "the baseline moved by {} from boot {} to boot {}, more than its boot noise "
      "of {} explains",
      Change(*drift.point), before, after, PercentText(plan.boot_noise.value.value));
}

struct Said {
  Finding finding = Finding::kNone;
  std::string why;
};

// What keeps the case from being estimated at all, in the order in which a
// person would ask: is it there, may it be compared, did requests fail.
std::optional<Said> Obstacle(const plan::ResolvedPlan& plan, const Matter& matter,
                             const Threshold& threshold) {
  if (!matter.missing_arm.empty()) {
    return Said{Finding::kNotMeasured, "the plan has no " + matter.missing_arm + " arm"};
  }
  if (const std::string gaps = GapsText(matter); !gaps.empty()) {
    return Said{Finding::kNotMeasured, "not measured as planned: " + gaps};
  }
  if (const Problem* problem = matter.voiding(threshold.kind)) {
    return Said{problem->finding, "not to be compared: " + problem->sentence};
  }
  if (matter.dagger() && !threshold.judge_dagger) {
    return Said{Finding::kFailuresInCase, threshold.dagger_text + ": " + DaggerText(matter)};
  }
  for (const Series* series : matter.arms()) {
    if (!series->all_values()) {
      return Said{Finding::kNotMeasured, "a round of " + Shown(series->arm) + " has no value"};
    }
  }
  if (std::string drift = DriftText(plan, matter, threshold); !drift.empty()) {
    return Said{Finding::kDrift, std::move(drift)};
  }
  return std::nullopt;
}

Verdict VerdictOf(stats::Outcome outcome) {
  switch (outcome) {
    case stats::Outcome::kPass:
      return Verdict::kPass;
    case stats::Outcome::kFail:
      return Verdict::kFail;
    case stats::Outcome::kInconclusive:
      break;
  }
  return Verdict::kInconclusive;
}

// No successful token in any round of the candidate: a ratio of logs cannot say
// it, and it is the plainest failure of all.
bool NothingDelivered(const Matter& matter, const Quantity& quantity) {
  if (quantity.direction != stats::Direction::kHigherIsBetter) return false;
  if (!matter.candidate->all_zero()) return false;
  if (!matter.baseline) return true;
  return std::all_of(matter.baseline->values.begin(), matter.baseline->values.end(),
                     [](const auto& v) { return v && *v > 0.0; });
}

Said Decide(const Matter& matter, const Quantity& quantity, const Threshold& threshold,
            const stats::Estimate& estimate, Verdict& verdict) {
  verdict = Verdict::kInconclusive;
  if (NothingDelivered(matter, quantity)) {
    verdict = Verdict::kFail;
    return {threshold.broken, "the candidate delivered no successful token at all"};
  }
  if (!estimate.interval) {
    if (estimate.missing == stats::Missing::kSecondUnit) {
      return {Finding::kTooFewRounds,
              "one round shows no spread, so there is no interval; 3 rounds or more are needed"};
    }
    return {Finding::kNotMeasured, "no estimate: a round has a value that cannot be used"};
  }
  const stats::Outcome outcome = stats::Decide(estimate, quantity.direction, threshold.limit);
  if (outcome == stats::Outcome::kFail) {
    verdict = Verdict::kFail;
    return {threshold.broken, std::string(Describe(threshold.broken))};
  }
  if (outcome == stats::Outcome::kInconclusive) {
    return {Finding::kUndecided, "undecided; " + HowToResolve(estimate, threshold.limit)};
  }
  if (!matter.whole()) {
    return {Finding::kNotMeasured,
            "would pass, but the guard kept planned requests from being sent"};
  }
  if (threshold.kind == Kind::kRatio && IsBig(*estimate.point) && !matter.dagger() &&
      !SameOutput(matter)) {
    return {Finding::kOutputDiffers,
            "a big change, and the arms delivered different numbers of tokens"};
  }
  verdict = VerdictOf(outcome);
  return {Finding::kNone, "pass"};
}

Judged JudgeCase(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                 const plan::Case& of, const Quantity& quantity, const Threshold& threshold) {
  const Matter matter = Collect(plan, summary, of, quantity, threshold);
  Judged judged;
  CaseResult& result = judged.result;
  result.case_name = of.name;
  if (matter.baseline) result.baseline = matter.baseline->median;
  if (matter.candidate) result.candidate = matter.candidate->median;
  bool first = true;
  for (const Series* series : matter.arms()) {
    result.rounds =
        first ? series->coverage.rounds : std::min(result.rounds, series->coverage.rounds);
    result.boots = first ? series->boots() : std::min(result.boots, series->boots());
    first = false;
  }

  std::string message = Heading(of, quantity, matter);
  stats::Estimate estimate;
  Said said;
  if (const auto obstacle = Obstacle(plan, matter, threshold)) {
    said = *obstacle;
    message +=
        fmt::format(" ({}), {}: {}", DirectionText(quantity.direction), threshold.text, said.why);
  } else {
    estimate = EstimateOf(plan, matter, threshold);
    said = Decide(matter, quantity, threshold, estimate, result.verdict);
    result.estimate = estimate.point;
    if (estimate.interval) {
      result.interval = Interval{estimate.interval->lower, estimate.interval->upper};
    }
    const std::string numbers =
        estimate.point ? EstimateText(estimate, quantity, threshold.kind) : "no estimate";
    message += fmt::format(", {}, {}: {}", numbers, threshold.text, said.why);
    if (matter.dagger()) {
      message += fmt::format("; † {}: judged on the observed throughput", DaggerText(matter));
    }
  }
  result.finding = said.finding;
  result.reason = said.why;
  result.message = std::move(message);
  judged.explanation = Explain({.plan = plan,
                                .of = of,
                                .quantity = quantity,
                                .threshold = threshold,
                                .arms = matter.arms(),
                                .estimate = estimate,
                                .result = result});
  return judged;
}

int Badness(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return 0;
    case Verdict::kInconclusive:
      return 1;
    case Verdict::kFail:
      break;
  }
  return 2;
}

std::string ShapeText(const plan::Gate& gate, const std::vector<CaseResult>& cases) {
  int counts[3] = {0, 0, 0};
  for (const CaseResult& result : cases) ++counts[Badness(result.verdict)];
  return fmt::format("{}, {} ({} pass, {} fail, {} inconclusive); ",
                     gate.selection.shape ? "shape " + Shown(*gate.selection.shape) : "all cases",
                     Count(cases.size(), "case"), counts[0], counts[2], counts[1]);
}

}  // namespace

GateResult StartResult(const plan::Gate& gate) {
  GateResult result;
  result.id = gate.id;
  result.kind = gate.kind();
  result.severity = gate.severity;
  result.location = gate.location;
  return result;
}

GateResult JudgeCases(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                      const evidence::Summary& summary, const Threshold& threshold,
                      const std::function<Quantity(const plan::Case&)>& quantity_of) {
  GateResult result = StartResult(gate);
  result.margin = threshold.limit;
  for (const plan::Case* of : plan.Select(gate.selection)) {
    Judged judged = JudgeCase(plan, summary, *of, quantity_of(*of), threshold);
    result.cases.push_back(std::move(judged.result));
    std::move(judged.explanation.begin(), judged.explanation.end(),
              std::back_inserter(result.explanation));
  }
  if (result.cases.empty()) {
    result.message = "no case was selected, so nothing was judged";
    return result;
  }
  const CaseResult& deciding = *std::max_element(result.cases.begin(), result.cases.end(),
                                                 [](const CaseResult& a, const CaseResult& b) {
                                                   return Badness(a.verdict) < Badness(b.verdict);
                                                 });
  result.verdict = deciding.verdict;
  result.finding = deciding.finding;
  result.estimate = deciding.estimate;
  result.interval = deciding.interval;
  result.rounds = deciding.rounds;
  result.boots = deciding.boots;
  result.message =
      (result.cases.size() > 1 ? ShapeText(gate, result.cases) : "") + deciding.message;
  return result;
}

CaseComparison CompareCase(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                           const plan::Case& of) {
  CaseComparison comparison;
  comparison.name = of.name;
  comparison.shape = of.shape;
  const Threshold threshold{.limit = 1.0, .text = {}, .dagger_text = {}};
  const Matter matter = Collect(plan, summary, of, OutputThroughput(), threshold);
  comparison.dagger = matter.dagger();
  if (Obstacle(plan, matter, threshold)) return comparison;
  const stats::Estimate estimate = EstimateOf(plan, matter, threshold);
  if (!estimate.point) return comparison;
  CaseComparison::Ratio ratio;
  ratio.estimate = *estimate.point;
  if (estimate.interval) ratio.interval = {estimate.interval->lower, estimate.interval->upper};
  ratio.rounds = std::min(matter.baseline->coverage.rounds, matter.candidate->coverage.rounds);
  ratio.boots = std::min(matter.baseline->boots(), matter.candidate->boots());
  comparison.output_tokens_per_s = ratio;
  return comparison;
}

}  // namespace upgrade_gate::gates
