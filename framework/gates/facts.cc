#include "framework/gates/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "framework/base/text.h"
#include "framework/gates/findings.h"
#include "framework/gates/wording.h"

namespace upgrade_gate::gates {
namespace {

using evidence::BootRecord;
using evidence::Fact;
using evidence::FactState;

constexpr std::size_t kNamesShown = 8;

// What the boots of one arm say of one fact.
struct OfArm {
  FactState state = FactState::kUnknown;
  std::string value;
  std::string why;  // it is unknown
  bool compared = true;
  std::string contradiction;  // two boots of the arm that say different things
};

// "absent", "FLASH_ATTN": as a plan writes it.
std::string Text(FactState state, const std::string& value) {
  return state == FactState::kPresent ? value : std::string(Name(state));
}
std::string Text(const OfArm& fact) {
  return Text(fact.state, fact.value);
}

using Facts = std::map<std::string, OfArm>;

void Add(const BootRecord& boot, std::map<std::string, int>& first_boot, Facts& facts) {
  for (const Fact& fact : boot.facts) {
    const auto [at, is_new] =
        facts.try_emplace(fact.name, OfArm{fact.state, fact.value, fact.source, fact.compared, ""});
    if (is_new) {
      first_boot[fact.name] = boot.number;
      continue;
    }
    OfArm& known = at->second;
    const bool same = known.state == fact.state && known.value == fact.value;
    if (known.state == FactState::kUnknown || same) continue;
    if (fact.state == FactState::kUnknown) {
      known.state = FactState::kUnknown;
      known.value.clear();
      known.why = fmt::format("unknown in boot {}: {}", boot.number, fact.source);
      continue;
    }
    if (known.contradiction.empty() && fact.compared) {
      known.contradiction =
          fmt::format("{} in boot {}, {} in boot {}", Shown(Text(known)), first_boot[fact.name],
                      Shown(Text(fact.state, fact.value)), boot.number);
    }
  }
}

// Of the boots that measured the cases for the arm. A fact that a boot does not
// have at all is unknown in it.
Facts FactsOf(const evidence::Summary& summary, const std::vector<const plan::Case*>& cases,
              const std::string& arm) {
  Facts facts;
  std::map<std::string, int> first_boot;
  std::vector<const BootRecord*> boots;
  for (const int number : UsedBoots(summary, cases, {arm})) {
    if (const BootRecord* boot = summary.FindBoot(number)) boots.push_back(boot);
  }
  for (const BootRecord* boot : boots) Add(*boot, first_boot, facts);
  for (auto& [name, fact] : facts) {
    for (const BootRecord* boot : boots) {
      const bool there = std::any_of(boot->facts.begin(), boot->facts.end(),
                                     [&](const Fact& each) { return each.name == name; });
      if (there || fact.state == FactState::kUnknown) continue;
      fact.state = FactState::kUnknown;
      fact.value.clear();
      fact.why = fmt::format("not among the facts of boot {}", boot->number);
    }
  }
  return facts;
}

OfArm Find(const Facts& facts, const std::string& name) {
  const auto found = facts.find(name);
  if (found != facts.end()) return found->second;
  return {FactState::kUnknown, "",
          facts.empty() ? "no facts were recorded" : "no rule or command gives it", true, ""};
}

const plan::ExpectedChange* Declared(const plan::ResolvedPlan& plan, const std::string& fact) {
  for (const plan::ExpectedChange& change : plan.expected_changes) {
    if (change.fact == fact) return &change;
  }
  return nullptr;
}

struct Compared {
  std::string baseline, candidate;  // names of the arms
  Facts before, after;
};

std::optional<Compared> Compare(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                                const std::vector<const plan::Case*>& cases) {
  const plan::Arm* baseline = plan.baseline();
  const plan::Arm* candidate = plan.candidate();
  if (baseline == nullptr || candidate == nullptr) return std::nullopt;
  if (UsedBoots(summary, cases, {baseline->name}).empty() ||
      UsedBoots(summary, cases, {candidate->name}).empty()) {
    return std::nullopt;
  }
  return Compared{baseline->name, candidate->name, FactsOf(summary, cases, baseline->name),
                  FactsOf(summary, cases, candidate->name)};
}

std::map<std::string, bool> Names(const Facts& some, const Facts& others) {
  std::map<std::string, bool> compared;
  for (const Facts* facts : {&some, &others}) {
    for (const auto& [name, fact] : *facts) {
      const auto at = compared.try_emplace(name, true).first;
      at->second = at->second && fact.compared;
    }
  }
  return compared;
}

// What became of a declared change; nothing: it came true.
std::optional<Problem> Became(const plan::ExpectedChange& change, const Compared& arms) {
  const OfArm before = Find(arms.before, change.fact);
  const OfArm after = Find(arms.after, change.fact);
  const auto differs = [](const OfArm& fact, const std::string& declared) {
    return fact.state != FactState::kUnknown && Text(fact) != declared;
  };
  const std::string declared =
      fmt::format("{}: declared {} → {}", Shown(change.fact), Shown(change.from), Shown(change.to));
  if (differs(before, change.from) || differs(after, change.to)) {
    return Problem{Finding::kChangeMissed, fmt::format("{}, found {} → {}", declared,
                                                       Shown(Text(before)), Shown(Text(after)))};
  }
  for (const auto& [arm, fact] :
       {std::pair(&arms.baseline, &before), std::pair(&arms.candidate, &after)}) {
    if (fact->state != FactState::kUnknown) continue;
    return Problem{Finding::kChangeUnproved, fmt::format("{}, but it is not known of {} ({})",
                                                         declared, Shown(*arm), Shown(fact->why))};
  }
  return std::nullopt;
}

// "a, b and 3 more"
std::string NamesText(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kNamesShown) {
      shown.push_back(fmt::format("{} more", names.size() - kNamesShown));
      break;
    }
    shown.push_back(Shown(name));
  }
  return base::JoinList(shown);
}

void AddChanges(const plan::ResolvedPlan& plan, const std::optional<Compared>& arms,
                std::vector<std::string>& lines) {
  for (const plan::ExpectedChange& change : plan.expected_changes) {
    std::string line = fmt::format("declared change: {}: {} → {}: {}", Shown(change.fact),
                                   Shown(change.from), Shown(change.to), Shown(change.reason));
    if (arms && !(arms->before.empty() && arms->after.empty())) {
      const auto problem = Became(change, *arms);
      line += problem ? fmt::format(" ({})", Describe(problem->finding)) : " (found so)";
    }
    lines.push_back(std::move(line));
  }
}

void AddUnknown(const plan::ResolvedPlan& plan, const Compared& arms,
                std::vector<std::string>& lines) {
  std::vector<std::string> of_neither;
  for (const auto& [name, compared] : Names(arms.before, arms.after)) {
    if (!compared || Declared(plan, name) != nullptr) continue;
    const OfArm before = Find(arms.before, name);
    const OfArm after = Find(arms.after, name);
    const bool left = before.state == FactState::kUnknown;
    const bool right = after.state == FactState::kUnknown;
    if (left && right) {
      of_neither.push_back(name);
    } else if (left || right) {
      lines.push_back(fmt::format(
          "{} is {} in {} and not known of {} ({}): whether it is the same is open", Shown(name),
          Shown(Text(left ? after : before)), Shown(left ? arms.candidate : arms.baseline),
          Shown(left ? arms.baseline : arms.candidate), Shown((left ? before : after).why)));
    }
  }
  if (!of_neither.empty()) {
    lines.push_back(
        fmt::format("not known of either arm, so not compared: {}", NamesText(of_neither)));
  }
}

void AddAttributionArms(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                        const Compared& arms, std::vector<std::string>& lines) {
  for (const plan::Arm& arm : plan.arms) {
    if (arm.role != plan::ArmRole::kAttribution) continue;
    const Facts facts = FactsOf(summary, plan.Select({}), arm.name);
    for (const auto& [name, compared] : Names(arms.after, facts)) {
      const OfArm candidate = Find(arms.after, name);
      const OfArm other = Find(facts, name);
      if (!compared || candidate.state == FactState::kUnknown ||
          other.state == FactState::kUnknown || Text(candidate) == Text(other)) {
        continue;
      }
      lines.push_back(fmt::format("{} is {} in {}, {} in {}", Shown(name), Shown(Text(other)),
                                  Shown(arm.name), Shown(Text(candidate)), Shown(arms.candidate)));
    }
  }
}

void AddWarnings(const evidence::Summary& summary, std::vector<std::string>& lines) {
  for (const BootRecord& boot : summary.boots) {
    for (const evidence::LogWarning& warning : boot.warnings) {
      lines.push_back(
          fmt::format("the log of boot {} ({}) warns of a {} ({}, the first at line {}): {}",
                      boot.number, Shown(boot.arm), Shown(warning.kind),
                      warning.count == 1 ? "once" : fmt::format("{} times", warning.count),
                      warning.line, Shown(warning.means)));
    }
  }
}

}  // namespace

std::vector<Problem> FindFactProblems(const plan::ResolvedPlan& plan,
                                      const evidence::Summary& summary,
                                      const std::vector<const plan::Case*>& cases) {
  std::vector<Problem> problems;
  const auto arms = Compare(plan, summary, cases);
  if (!arms) return problems;
  for (const auto& [arm, facts] :
       {std::pair(&arms->baseline, &arms->before), std::pair(&arms->candidate, &arms->after)}) {
    for (const auto& [name, fact] : *facts) {
      if (fact.contradiction.empty()) continue;
      problems.push_back(
          {Finding::kPathDiffers, fmt::format("{} differs between boots of {}: {}", Shown(name),
                                              Shown(*arm), fact.contradiction)});
    }
  }
  for (const auto& [name, compared] : Names(arms->before, arms->after)) {
    if (!compared || Declared(plan, name) != nullptr) continue;
    const OfArm before = Find(arms->before, name);
    const OfArm after = Find(arms->after, name);
    if (before.state == FactState::kUnknown || after.state == FactState::kUnknown) continue;
    if (Text(before) == Text(after) && before.state == after.state) continue;
    problems.push_back(
        {Finding::kPathDiffers,
         fmt::format("{}: {} in {}, {} in {}, which expected_changes does not declare", Shown(name),
                     Shown(Text(before)), Shown(arms->baseline), Shown(Text(after)),
                     Shown(arms->candidate))});
  }
  for (const plan::ExpectedChange& change : plan.expected_changes) {
    if (auto problem = Became(change, *arms)) problems.push_back(*std::move(problem));
  }
  return problems;
}

int ComparedFacts(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                  const std::vector<const plan::Case*>& cases) {
  const auto arms = Compare(plan, summary, cases);
  if (!arms) return 0;
  int count = 0;
  for (const auto& [name, compared] : Names(arms->before, arms->after)) {
    if (compared && Find(arms->before, name).state != FactState::kUnknown &&
        Find(arms->after, name).state != FactState::kUnknown) {
      ++count;
    }
  }
  return count;
}

std::vector<std::string> FactLines(const plan::ResolvedPlan& plan,
                                   const evidence::Summary& summary) {
  std::vector<std::string> lines;
  const auto arms = Compare(plan, summary, plan.Select({}));
  AddChanges(plan, arms, lines);
  if (arms) {
    AddUnknown(plan, *arms, lines);
    AddAttributionArms(plan, summary, *arms, lines);
  }
  AddWarnings(summary, lines);
  return lines;
}

}  // namespace upgrade_gate::gates
