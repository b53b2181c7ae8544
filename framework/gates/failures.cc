#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "framework/base/text.h"
#include "framework/gates/client.h"
#include "framework/gates/explain.h"
#include "framework/gates/findings.h"
#include "framework/gates/kinds.h"
#include "framework/gates/series.h"
#include "framework/gates/wording.h"
#include "framework/stats/binomial.h"
#include "framework/stats/exact_tests.h"

namespace upgrade_gate::gates {
namespace {

// Failures of the gate's kind, over all formal rounds of one arm.
struct Tally {
  stats::FailureCount count;
  int planned = 0;
  int unsent = 0;
  std::vector<std::string> gaps;
  std::vector<Problem> faults;  // of the client
  bool unsent_by_guard = false;
  int rounds = 0;
  std::vector<int> boots;

  bool whole() const { return gaps.empty() && unsent == 0 && planned > 0; }
};

int FailuresIn(const evidence::FailureCounts& counts, const plan::FailuresGate& rule) {
  if (!rule.kind) return counts.failed();
  const auto found = counts.by_kind.find(*rule.kind);
  return found == counts.by_kind.end() ? 0 : found->second;
}

std::size_t NotNegative(int n) {
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

Tally TallyOf(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
              const std::vector<const plan::Case*>& cases, const plan::FailuresGate& rule,
              const std::string& arm) {
  Tally tally;
  for (const plan::Case* of : cases) {
    const Coverage coverage = Cover(plan, summary, *of, arm);
    tally.planned += coverage.planned_requests;
    tally.unsent += coverage.unsent();
    tally.unsent_by_guard = tally.unsent_by_guard || coverage.unsent_by_guard > 0;
    tally.rounds += coverage.rounds;
    for (const std::string& gap : coverage.gaps) {
      tally.gaps.push_back(Shown(of->name) + ": " + gap);
    }
    std::vector<Problem> faults = FindClientFaults(summary, *of, {arm});
    std::move(faults.begin(), faults.end(), std::back_inserter(tally.faults));
    for (const evidence::RoundSummary& round : RoundsOf(summary, of->name, arm)) {
      tally.count.failures += NotNegative(FailuresIn(round.counts, rule));
      tally.count.requests += NotNegative(round.counts.requests);
      if (std::find(tally.boots.begin(), tally.boots.end(), round.boot) == tally.boots.end()) {
        tally.boots.push_back(round.boot);
      }
    }
  }
  return tally;
}

std::string KindText(const plan::FailuresGate& rule) {
  return rule.kind ? std::string(evidence::Name(*rule.kind)) : "failures of any kind";
}

// How much more of the same would decide; the rate will not stay, so about.
std::string HowToResolve(const stats::FailureCount& count, double budget, double confidence) {
  std::string text = "undecided";
  const stats::BudgetCounts needed = stats::CountsForBudget(count.requests, budget, confidence);
  std::vector<std::string> parts;
  parts.push_back(needed.passes_up_to ? fmt::format("up to {} pass", *needed.passes_up_to)
                                      : std::string("not even 0 failures pass"));
  if (needed.fails_from) parts.push_back(fmt::format("{} or more fail", *needed.fails_from));
  text += fmt::format(" (of {} requests {})", count.requests, base::JoinList(parts));
  if (!(budget > 0.0)) return text + "; no number of requests proves a rate of 0";
  constexpr std::size_t kMost = 100;
  for (std::size_t k = 2; k <= kMost; ++k) {
    const stats::FailureCount more{k * count.failures, k * count.requests};
    if (stats::DecideBudget(more, budget, confidence) != stats::Outcome::kInconclusive) {
      return text + fmt::format("; about {} times the rounds would resolve it at the rate seen", k);
    }
  }
  return text +
         fmt::format("; not even {} times the rounds would resolve it at the rate seen", kMost);
}

std::string MissingText(const Tally& tally) {
  std::string text =
      fmt::format("{} of {} planned requests were not sent", tally.unsent, tally.planned);
  if (tally.unsent_by_guard) text += ", the guard stopped rounds";
  if (!tally.gaps.empty()) {
    text += "; " + tally.gaps.front();
    if (tally.gaps.size() > 1) text += fmt::format(" and {} more", tally.gaps.size() - 1);
  }
  return text;
}

void ExplainCases(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                  const std::vector<const plan::Case*>& cases, const std::string& arm,
                  std::vector<std::string>& lines) {
  for (const plan::Case* of : cases) {
    const Series series = SeriesOf(plan, summary, *of, arm, OutputThroughput());
    std::string line = fmt::format("  {}: {} of {} sent requests failed ({} planned); by kind: {}",
                                   Shown(of->name), series.counts.failed(), series.counts.requests,
                                   series.coverage.planned_requests, KindsText(series.counts));
    const auto paths = FailurePaths(of->name, series);
    if (!paths.empty()) line += "; raw streams: " + base::JoinList(paths);
    lines.push_back(std::move(line));
  }
}

// For the report only: the gate decides by its budget, never by a p value.
void ExplainDifference(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                       const std::vector<const plan::Case*>& cases, const plan::FailuresGate& rule,
                       const Tally& tally, std::vector<std::string>& lines) {
  const plan::Arm* baseline = plan.baseline();
  if (baseline == nullptr || baseline->name == rule.arm) return;
  const Tally other = TallyOf(plan, summary, cases, rule, baseline->name);
  const auto difference = stats::NewcombeDifference(tally.count, other.count);
  const auto fisher = stats::Fisher(tally.count, other.count);
  if (!difference || !fisher) return;
  lines.push_back(fmt::format(
      "  beside it, not part of the verdict: {} {} of {} ({}); difference {:+.2f} pp, 90 % "
      "interval "
      "[{:+.2f}, {:+.2f}] pp (Newcombe); Fisher p {:.3f} one-sided, {:.3f} two-sided",
      Shown(baseline->name), other.count.failures, other.count.requests,
      Share(static_cast<double>(other.count.failures) / static_cast<double>(other.count.requests)),
      100 * difference->difference, 100 * difference->interval.lower,
      100 * difference->interval.upper, fisher->candidate_worse, fisher->two_sided));
}

std::string NextStep(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "nothing to do";
    case Verdict::kFail:
      return "look at the raw streams of the failed requests; hold a failing input fixed and "
             "replay it";
    case Verdict::kInconclusive:
      break;
  }
  return "measure what is missing, or more rounds; look at the raw streams of what failed";
}

}  // namespace

GateResult JudgeFailures(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                         const plan::FailuresGate& rule, const evidence::Summary& summary) {
  GateResult result = StartResult(gate);
  const double budget = rule.max_rate.fraction();
  const double confidence = rule.confidence.fraction();
  result.margin = budget;
  const auto cases = plan.Select(gate.selection);
  const std::string kind = KindText(rule);
  if (plan.FindArm(rule.arm) == nullptr) {
    result.message = fmt::format("{}: {}: the plan has no such arm", Shown(rule.arm), kind);
    return result;
  }
  const Tally tally = TallyOf(plan, summary, cases, rule, rule.arm);
  const auto bounds = stats::ClopperPearson(tally.count, confidence);
  result.rounds = tally.rounds;
  result.boots = static_cast<int>(tally.boots.size());
  if (!bounds) {
    result.message =
        fmt::format("{}: {}, budget {}: not measured: {}", Shown(rule.arm), kind,
                    PercentText(rule.max_rate.value),
                    tally.count.requests == 0 ? MissingText(tally) : "more failures than requests");
    result.explanation = {result.message, "  next: capture again"};
    return result;
  }
  const double rate =
      static_cast<double>(tally.count.failures) / static_cast<double>(tally.count.requests);
  result.estimate = rate;
  result.interval = Interval{bounds->lower, bounds->upper};

  std::string why;
  switch (stats::DecideBudget(tally.count, budget, confidence)) {
    case stats::Outcome::kFail:
      result.verdict = Verdict::kFail;
      result.finding = Finding::kOverBudget;
      why = Describe(Finding::kOverBudget);
      break;
    case stats::Outcome::kInconclusive:
      result.finding = Finding::kUndecided;
      why = HowToResolve(tally.count, budget, confidence);
      break;
    case stats::Outcome::kPass:
      if (!tally.faults.empty()) {
        result.finding = tally.faults.front().finding;
        why = "would pass, but " + tally.faults.front().sentence;
      } else if (tally.whole()) {
        result.verdict = Verdict::kPass;
        result.finding = Finding::kNone;
        why = "pass";
      } else {
        result.finding = Finding::kNotMeasured;
        why = "would pass, but not measured as planned";
      }
  }
  if (!tally.whole()) {
    why += "; " + MissingText(tally);
    if (result.verdict == Verdict::kInconclusive) result.finding = Finding::kNotMeasured;
  }
  result.message = fmt::format(
      "{}: {} {} of {} sent requests ({}), one-sided {} bounds [{}, {}] ({}, {}), lower is better, "
      "budget {}: {}",
      Shown(rule.arm), kind, tally.count.failures, tally.count.requests, Share(rate),
      PercentText(rule.confidence.value), Share(bounds->lower), Share(bounds->upper),
      Count(result.rounds, "round"), Count(result.boots, "boot"), PercentText(rule.max_rate.value),
      why);

  result.explanation.push_back(
      fmt::format("{}: {} over all formal requests sent", Shown(rule.arm), kind));
  ExplainCases(plan, summary, cases, rule.arm, result.explanation);
  result.explanation.push_back(
      fmt::format("  x = {} of n = {}: {:.4f} %; each bound alone holds with {}: lower {:.4f} %, "
                  "upper {:.4f} %",
                  tally.count.failures, tally.count.requests, 100 * rate,
                  PercentText(rule.confidence.value), 100 * bounds->lower, 100 * bounds->upper));
  result.explanation.emplace_back(
      "  formula: Clopper and Pearson 1934: lower = Beta⁻¹(1-c; x, n-x+1), upper = Beta⁻¹(c; x+1, "
      "n-x); pass if the upper bound is within the budget, fail if the lower one is above it");
  result.explanation.push_back("  threshold: budget " + PercentText(rule.max_rate.value));
  ExplainDifference(plan, summary, cases, rule, tally, result.explanation);
  result.explanation.emplace_back("  a rate of this workload, not a production rate");
  result.explanation.push_back(
      fmt::format("  verdict: {} ({})", Name(result.verdict), Describe(result.finding)));
  result.explanation.push_back("  next: " + NextStep(result.verdict));
  return result;
}

}  // namespace upgrade_gate::gates
