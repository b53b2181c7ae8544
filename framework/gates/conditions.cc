#include "framework/gates/conditions.h"

#include <fmt/format.h>

#include <set>

#include "framework/base/text.h"
#include "framework/gates/client.h"
#include "framework/gates/coverage.h"
#include "framework/gates/facts.h"
#include "framework/gates/wording.h"

namespace upgrade_gate::gates {
namespace {

using Lines = std::vector<std::string>;

std::set<int> BootsOf(const evidence::Summary& summary, const plan::Case& of,
                      const std::string& arm) {
  std::set<int> boots;
  for (const auto& round : RoundsOf(summary, of.name, arm)) boots.insert(round.boot);
  return boots;
}

std::vector<const plan::Arm*> Compared(const plan::ResolvedPlan& plan) {
  std::vector<const plan::Arm*> arms;
  for (const plan::Arm* arm : {plan.baseline(), plan.candidate()}) {
    if (arm != nullptr) arms.push_back(arm);
  }
  return arms;
}

void AddBootNoise(const plan::ResolvedPlan& plan, const evidence::Summary& summary, Lines& lines) {
  bool one_boot = false;
  for (const plan::Case& of : plan.workload.cases) {
    for (const plan::Arm* arm : Compared(plan)) {
      one_boot = one_boot || BootsOf(summary, of, arm->name).size() == 1;
    }
  }
  if (!one_boot) return;
  std::string line =
      fmt::format("one boot an arm: boot-to-boot noise assumed ({} a boot), not measured",
                  PercentText(plan.boot_noise.value.value));
  if (!plan.boot_noise.reason.empty()) line += ": " + Shown(plan.boot_noise.reason);
  lines.push_back(std::move(line));
}

void AddAttribution(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                    Lines& lines) {
  if (Compared(plan).size() < 2) {
    lines.emplace_back("no baseline arm or no candidate arm: nothing is compared");
    return;
  }
  for (const plan::Arm& arm : plan.arms) {
    if (arm.role != plan::ArmRole::kAttribution) continue;
    for (const plan::Case& of : plan.workload.cases) {
      if (!BootsOf(summary, of, arm.name).empty()) return;
    }
  }
  lines.emplace_back(
      "no attribution arm was measured: a difference is not attributable to one change");
}

// What is not proved of the bytes that ran, said beside every decision.
void AddIdentity(const plan::ResolvedPlan& plan, const evidence::Summary& summary, Lines& lines) {
  for (const plan::Arm& arm : plan.arms) {
    for (const evidence::BootRecord& boot : summary.boots) {
      if (boot.arm != arm.name || boot.strength == evidence::IdentityStrength::kContent) continue;
      if (boot.strength == evidence::IdentityStrength::kFile) {
        lines.push_back(fmt::format(
            "identity of {}: its image's file was hashed, what a program "
            "started from it was not{}",
            Shown(arm.name),
            arm.built_from.empty() ? ""
                                   : "; built from " + Shown(arm.built_from) + " by its plan"));
      } else {
        std::vector<std::string> values;
        for (const auto& [name, value] : arm.identity) {
          values.push_back(Shown(name) + " " + Shown(value));
        }
        lines.push_back(
            fmt::format("identity of {}: claimed by the server, not proved ({})", Shown(arm.name),
                        values.empty() ? "the plan declares none" : base::JoinList(values)));
      }
      break;  // one line an arm
    }
  }
}

void AddFailures(const plan::ResolvedPlan& plan, const evidence::Summary& summary, Lines& lines) {
  bool any = false;
  for (const plan::Case& of : plan.workload.cases) {
    bool dagger = false;
    std::vector<std::string> shares;
    for (const plan::Arm* arm : Compared(plan)) {
      int failed = 0;
      int requests = 0;
      for (const auto& round : RoundsOf(summary, of.name, arm->name)) {
        failed += round.counts.failed();
        requests += round.counts.requests;
      }
      dagger = dagger || failed > 0;
      shares.push_back(fmt::format("{} {} of {}", Shown(arm->name), failed, requests));
    }
    if (!dagger) continue;
    any = true;
    lines.push_back(
        fmt::format("† {}: requests failed ({}): observed throughput only, no gain is assigned",
                    Shown(of.name), base::JoinList(shares)));
  }
  if (any) lines.emplace_back("failure shares are of this workload, not a production rate");
}

void AddNotRun(const plan::ResolvedPlan& plan, const evidence::Summary& summary, Lines& lines) {
  for (const plan::Case& of : plan.workload.cases) {
    for (const plan::Arm& arm : plan.arms) {
      const Coverage coverage = Cover(plan, summary, of, arm.name);
      if (coverage.planned_rounds == 0 && arm.role == plan::ArmRole::kAttribution) continue;
      if (coverage.rounds == 0) {
        lines.push_back(fmt::format("not run: {} in {}; nothing is inferred from it",
                                    Shown(of.name), Shown(arm.name)));
      } else if (!coverage.whole()) {
        lines.push_back(fmt::format("not whole: {} in {}: {} of {} rounds, {} of {} requests",
                                    Shown(of.name), Shown(arm.name), coverage.rounds,
                                    coverage.planned_rounds, coverage.sent,
                                    coverage.planned_requests));
      }
    }
  }
}

void AddRecordedApart(const evidence::Summary& summary, Lines& lines) {
  int superseded = 0;
  int failed = 0;
  int requests = 0;
  for (const auto& of : summary.cases) {
    for (const auto& [name, arm] : of.arms) {
      superseded += arm.superseded_rounds;
      failed += arm.warmup.failed();
      requests += arm.warmup.requests;
    }
  }
  if (superseded > 0) {
    lines.push_back(
        fmt::format("{} measured again in a later boot; kept, not judged",
                    superseded == 1 ? "1 round was" : fmt::format("{} rounds were", superseded)));
  }
  if (failed > 0) {
    lines.push_back(fmt::format("{} of {} warm-up requests failed; recorded apart, not judged",
                                failed, requests));
  }
}

}  // namespace

std::vector<std::string> ConditionsOf(const plan::ResolvedPlan& plan,
                                      const evidence::Summary& summary,
                                      const Judgement& judgement) {
  Lines lines;
  if (judgement.rejudged) {
    lines.emplace_back("re-judged after capture, by another plan file than the one captured");
  }
  AddBootNoise(plan, summary, lines);
  AddAttribution(plan, summary, lines);
  AddIdentity(plan, summary, lines);
  AddFailures(plan, summary, lines);
  AddNotRun(plan, summary, lines);
  for (std::string& line : ClientLines(plan, summary)) lines.push_back(std::move(line));
  AddRecordedApart(summary, lines);
  for (std::string& line : FactLines(plan, summary)) lines.push_back(std::move(line));
  for (const GateResult& gate : judgement.gates) {
    if (gate.severity == plan::Severity::kAdvisory && gate.verdict != Verdict::kPass) {
      lines.push_back(fmt::format("advisory gate {} did not pass ({}); it changes nothing",
                                  Shown(gate.id), Name(gate.verdict)));
    }
  }
  return lines;
}

}  // namespace upgrade_gate::gates
