#include "framework/gates/coverage.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace upgrade_gate::gates {
namespace {

using evidence::RoundSummary;
using evidence::StopReason;

// Rounds by (step of the plan's order, number).
using ByStep = std::map<std::pair<int, int>, std::vector<const RoundSummary*>>;

void CoverStep(const plan::BootStep& step, int number, const plan::Case& of, ByStep& by_step,
               Coverage& coverage) {
  bool guarded = false;
  for (int round = 1; round <= step.rounds; ++round) {
    ++coverage.planned_rounds;
    coverage.planned_requests += of.requests;
    const auto found = by_step.find({number, round});
    if (found == by_step.end()) {
      if (guarded) {
        coverage.unsent_by_guard += of.requests;
      } else {
        coverage.gaps.push_back(
            fmt::format("round {} of {} of boot step {} is missing", round, step.rounds, number));
      }
      continue;
    }
    const std::vector<const RoundSummary*> rounds = std::move(found->second);
    by_step.erase(found);
    if (rounds.size() > 1) {
      coverage.gaps.push_back(
          fmt::format("round {} of boot step {} is there {} times", round, number, rounds.size()));
    }
    const RoundSummary& there = *rounds.front();
    ++coverage.rounds;
    coverage.sent += there.counts.requests;
    const int unsent = of.requests - there.counts.requests;
    const bool by_guard = there.stopped == StopReason::kGuard;
    if (unsent > 0 && by_guard) {
      coverage.unsent_by_guard += unsent;
    } else if (unsent != 0) {
      coverage.gaps.push_back(fmt::format("round {} of boot {} sent {} of {} planned requests ({})",
                                          round, there.boot, there.counts.requests, of.requests,
                                          evidence::Name(there.stopped)));
    }
    guarded = guarded || by_guard;
  }
}

}  // namespace

Coverage Cover(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
               const plan::Case& of, const std::string& arm) {
  Coverage coverage;
  ByStep by_step;
  for (const RoundSummary& round : RoundsOf(summary, of.name, arm)) {
    const evidence::BootRecord* boot = summary.FindBoot(round.boot);
    // Step 0 is never asked for, so a round of an unknown boot ends as a surplus one.
    by_step[{boot != nullptr && boot->arm == arm ? boot->step : 0, round.round}].push_back(&round);
  }
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    const plan::BootStep& step = plan.order[i];
    if (step.arm != arm) continue;
    for (const std::string& name : step.cases) {
      if (name == of.name) CoverStep(step, static_cast<int>(i) + 1, of, by_step, coverage);
    }
  }
  if (coverage.planned_rounds == 0) {
    coverage.gaps.emplace_back("the plan's order never runs it");
  }
  for (const auto& [key, rounds] : by_step) {
    coverage.gaps.push_back(fmt::format("round {} of boot {} belongs to no boot step of the plan",
                                        key.second, rounds.front()->boot));
  }
  return coverage;
}

const std::vector<RoundSummary>& RoundsOf(const evidence::Summary& summary,
                                          const std::string& case_name, const std::string& arm) {
  static const std::vector<RoundSummary> kNoRounds;
  const evidence::CaseSummary* of = summary.FindCase(case_name);
  if (of == nullptr) return kNoRounds;
  const auto rounds = of->arms.find(arm);
  return rounds == of->arms.end() ? kNoRounds : rounds->second.rounds;
}

}  // namespace upgrade_gate::gates
