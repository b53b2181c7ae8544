#include "framework/capture/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/file.h"

namespace upgrade_gate::capture {
namespace {

using evidence::RoundRecord;
using evidence::StopReason;

std::vector<const RoundRecord*> RoundsOf(const std::vector<RoundRecord>& rounds, int step,
                                         const std::string& case_name) {
  std::vector<const RoundRecord*> found;
  for (const RoundRecord& round : rounds) {
    if (!round.superseded && round.step == step && round.case_name == case_name) {
      found.push_back(&round);
    }
  }
  std::sort(found.begin(), found.end(), [](const RoundRecord* a, const RoundRecord* b) {
    return std::pair(a->boot, a->round) < std::pair(b->boot, b->round);
  });
  return found;
}

// Empty, or why these rounds are not what one boot should have measured.
std::string Gap(const std::vector<const RoundRecord*>& rounds, int planned_rounds) {
  int expected = 1;
  for (const RoundRecord* round : rounds) {
    if (round->boot != rounds.front()->boot) {
      return fmt::format("rounds of boots {} and {} stand side by side", rounds.front()->boot,
                         round->boot);
    }
    if (round->round != expected) return fmt::format("round {} is missing", expected);
    ++expected;
    if (round->stopped == StopReason::kGuard) return {};  // the rest is not run, as planned
    if (round->stopped != StopReason::kNone) {
      return fmt::format("round {} ended early: {}", round->round, round->stop_detail);
    }
  }
  if (expected <= planned_rounds) {
    return fmt::format("{} of {} rounds measured", expected - 1, planned_rounds);
  }
  return {};
}

}  // namespace

base::Result<std::vector<StepState>> PrepareSteps(const plan::ResolvedPlan& plan,
                                                  const evidence::Layout& layout) {
  UG_TRY(evidence::RemoveUnfinished(layout));
  UG_ASSIGN(const auto rounds, evidence::ReadRounds(layout, false));
  UG_ASSIGN(auto boots, evidence::ReadBoots(layout));

  std::vector<StepState> steps;
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    StepState state{.number = static_cast<int>(i) + 1, .step = &plan.order[i], .pending = {}};
    for (const std::string& case_name : plan.order[i].cases) {
      const auto measured = RoundsOf(rounds, state.number, case_name);
      if (Gap(measured, plan.order[i].rounds).empty()) continue;
      state.pending.push_back(case_name);
      for (const RoundRecord* round : measured) UG_TRY(evidence::Supersede(layout, *round));
    }
    steps.push_back(std::move(state));
  }
  for (evidence::BootRecord& boot : boots) {
    if (boot.exit.empty() && boot.stopped == StopReason::kNone) {
      boot.stopped = StopReason::kInterrupted;
      boot.stop_detail = "the runner ended while this boot was running";
      UG_TRY(evidence::WriteBoot(layout, boot));
    }
    for (StepState& state : steps) {
      if (state.number == boot.step) state.resumes = boot.number;
    }
  }
  return steps;
}

base::Status TakeLeftLogs(const evidence::Layout& layout) {
  UG_ASSIGN(auto boots, evidence::ReadBoots(layout));
  for (evidence::BootRecord& boot : boots) {
    const std::filesystem::path left = layout.live_log(boot.number, boot.arm);
    std::error_code error;
    if (!std::filesystem::exists(std::filesystem::symlink_status(left, error))) continue;
    // A log that is in the evidence is whole there; its file was only not removed yet.
    if (!std::filesystem::exists(layout.boot(boot.number, boot.arm) / evidence::kServerLogFile)) {
      UG_ASSIGN(const std::string log, base::ReadFile(left, std::uint64_t{1} << 30));
      UG_TRY(evidence::WriteServerLog(layout, boot, log));
      boot.log_written = boot.log_kept = log.size();
      boot.log_sha256 = base::Sha256Of(log);
      UG_TRY(evidence::WriteBoot(layout, boot));
    }
    UG_TRY(base::RemoveAll(left));
  }
  return {};
}

std::vector<std::string> FindBrokenBoots(const std::vector<evidence::BootRecord>& boots,
                                         const std::vector<RoundRecord>& rounds) {
  std::vector<std::string> broken;
  for (const evidence::BootRecord& boot : boots) {
    const bool measured = std::any_of(rounds.begin(), rounds.end(), [&](const RoundRecord& round) {
      return !round.superseded && round.boot == boot.number;
    });
    if (!measured) continue;
    if (boot.stopped == StopReason::kServiceLost) {
      broken.push_back(fmt::format("boot {} ({}) was lost", boot.number, boot.arm));
    }
    if (!boot.identity_change.empty()) {
      broken.push_back(fmt::format("boot {} ({}) was not one server from its start to its end: {}",
                                   boot.number, boot.arm, boot.identity_change));
    }
  }
  return broken;
}

std::vector<std::string> FindGaps(const plan::ResolvedPlan& plan,
                                  const std::vector<RoundRecord>& rounds) {
  std::vector<std::string> gaps;
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    const plan::BootStep& step = plan.order[i];
    for (const std::string& case_name : step.cases) {
      const std::string gap =
          Gap(RoundsOf(rounds, static_cast<int>(i) + 1, case_name), step.rounds);
      if (!gap.empty()) {
        gaps.push_back(
            fmt::format("boot step {} ({}), case {}: {}", i + 1, step.arm, case_name, gap));
      }
    }
  }
  return gaps;
}

}  // namespace upgrade_gate::capture
