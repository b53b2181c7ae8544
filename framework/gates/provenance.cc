#include "framework/gates/provenance.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/gates/coverage.h"
#include "framework/gates/facts.h"
#include "framework/gates/findings.h"
#include "framework/gates/kinds.h"
#include "framework/gates/wording.h"
#include "framework/plan/launch_argv.h"

namespace upgrade_gate::gates {
namespace {

using evidence::BootRecord;
using evidence::RoundSummary;

std::string BootText(const BootRecord& boot) {
  return fmt::format("boot {} ({})", boot.number, Shown(boot.arm));
}

// A pin that the plan asks for, under the name that launchers give it.
struct Wanted {
  std::string name;
  base::Sha256Hex sha256;  // empty: the plan gives no digest
};

std::vector<Wanted> WantedPins(plan::LauncherKind launcher, const plan::Arm& arm) {
  std::vector<Wanted> wanted;
  if (arm.executable) wanted.push_back({"executable", arm.executable->sha256});
  if (arm.image_file) wanted.push_back({"image_file", arm.image_file->sha256});
  for (const plan::PinnedFile& file : arm.files)
    wanted.push_back({"file " + file.path, file.sha256});
  if (!arm.image.empty() && launcher == plan::LauncherKind::kDocker) {
    constexpr std::string_view kMark = "@sha256:";
    const auto at = arm.image.rfind(kMark);
    wanted.push_back({"image", at == std::string::npos ? "" : arm.image.substr(at + kMark.size())});
  }
  return wanted;
}

// What a server said against what the plan declares, and how far its identity goes.
void FindIdentityProblems(const plan::Arm& arm, const BootRecord& boot,
                          std::vector<Problem>& problems) {
  for (const auto& [name, declared] : arm.identity) {
    const auto said = boot.server.values.find(name);
    if (said == boot.server.values.end()) {
      problems.push_back({Finding::kIdentityUnproved,
                          fmt::format("{}: the server did not say its {}, declared is \"{}\"",
                                      BootText(boot), Shown(name), Shown(declared))});
    } else if (said->second != declared) {
      problems.push_back(
          {Finding::kIdentityMismatch,
           fmt::format("{}: the server said its {} is \"{}\", declared is \"{}\"", BootText(boot),
                       Shown(name), Shown(said->second), Shown(declared))});
    }
  }
  switch (boot.strength) {
    case evidence::IdentityStrength::kContent:
      break;
    case evidence::IdentityStrength::kFile:
      problems.push_back({Finding::kIdentityOfFile,
                          fmt::format("{}: identity: its image's file was hashed, what a program "
                                      "started from it was not",
                                      BootText(boot))});
      break;
    case evidence::IdentityStrength::kClaimed:
      if (arm.identity.empty()) {
        problems.push_back({Finding::kIdentityUnproved,
                            fmt::format("{}: nothing was proved of what answered, and the plan "
                                        "declares no identity for it",
                                        BootText(boot))});
      } else {
        problems.push_back(
            {Finding::kIdentityClaimed,
             fmt::format("{}: identity: claimed by the server, not proved", BootText(boot))});
      }
      break;
  }
}

void FindPinProblems(const plan::ResolvedPlan& plan, const plan::Arm& arm, const BootRecord& boot,
                     std::vector<Problem>& problems) {
  const auto wanted = WantedPins(plan.server.launcher, arm);
  const bool claimed = boot.strength == evidence::IdentityStrength::kClaimed;
  if (wanted.empty() && boot.pins.empty() && !claimed) {
    problems.push_back({Finding::kPinUnproved, BootText(boot) + ": nothing of it is pinned"});
  }
  for (const Wanted& want : wanted) {
    const auto pin = std::find_if(boot.pins.begin(), boot.pins.end(),
                                  [&](const auto& p) { return p.name == want.name; });
    if (pin == boot.pins.end()) {
      problems.push_back({Finding::kPinUnproved, fmt::format("{}: {} was never checked",
                                                             BootText(boot), Shown(want.name))});
    } else if (want.sha256.empty()) {
      problems.push_back({Finding::kPinUnproved, fmt::format("{}: the plan pins no digest for {}",
                                                             BootText(boot), Shown(want.name))});
    } else if (pin->declared != want.sha256) {
      problems.push_back(
          {Finding::kPinMismatch,
           fmt::format("{}: {} was checked against {}, the plan pins {}", BootText(boot),
                       Shown(want.name), ShortDigest(pin->declared), ShortDigest(want.sha256))});
    }
  }
  for (const BootRecord::Pin& pin : boot.pins) {
    if (pin.declared.empty() || pin.found.empty()) {
      problems.push_back({Finding::kPinUnproved, fmt::format("{}: {} could not be proved",
                                                             BootText(boot), Shown(pin.name))});
    } else if (pin.declared != pin.found) {
      problems.push_back({Finding::kPinMismatch,
                          fmt::format("{}: {} is {}, pinned is {}", BootText(boot), Shown(pin.name),
                                      ShortDigest(pin.found), ShortDigest(pin.declared))});
    }
  }
}

// What `from` has more of than `than`, in order.
std::vector<std::string> Surplus(const std::vector<std::string>& from,
                                 const std::vector<std::string>& than) {
  std::multiset<std::string> rest(than.begin(), than.end());
  std::vector<std::string> surplus;
  for (const std::string& argument : from) {
    if (const auto found = rest.find(argument); found != rest.end()) {
      rest.erase(found);
    } else {
      surplus.push_back("\"" + Shown(argument) + "\"");
    }
  }
  return surplus;
}

// What stands before the plan's command: of a container the entrypoint, the plan's
// own or that of the pinned image, which the launcher wrote down.
std::vector<std::string> Entrypoint(const plan::ResolvedPlan& plan, const BootRecord& boot) {
  if (plan.server.docker.entrypoint) return *plan.server.docker.entrypoint;
  std::vector<std::string> entrypoint;
  const auto recorded = boot.server.values.find("image entrypoint");
  if (recorded == boot.server.values.end()) return entrypoint;
  const auto json = base::ParseJson(recorded->second);
  if (!json || !json->is_array()) return entrypoint;
  for (const base::Json& argument : *json) {
    if (argument.is_string()) entrypoint.push_back(argument.get<std::string>());
  }
  return entrypoint;
}

void FindArgumentProblems(const plan::ResolvedPlan& plan, const plan::Arm& arm,
                          const BootRecord& boot, std::vector<Problem>& problems) {
  if (plan.server.launcher == plan::LauncherKind::kEndpoint) return;  // nothing was started
  std::vector<std::string> argv = boot.argv;
  if (argv.empty()) {
    problems.push_back(
        {Finding::kNotRecorded, BootText(boot) + ": its arguments are not recorded"});
    return;
  }
  if (plan.server.launcher == plan::LauncherKind::kProcess) argv.erase(argv.begin());
  if (plan.server.launcher == plan::LauncherKind::kDocker) {
    const auto entrypoint = Entrypoint(plan, boot);
    if (argv.size() >= entrypoint.size() &&
        std::equal(entrypoint.begin(), entrypoint.end(), argv.begin())) {
      argv.erase(argv.begin(), argv.begin() + std::ssize(entrypoint));
    }
    // Without a command in the plan it is the pinned image's.
    if (arm.command.empty() && !plan.server.docker.entrypoint) return;
  }
  const std::vector<std::string> expected = plan.server.launcher == plan::LauncherKind::kCommand
                                                ? plan::LaunchArgv(plan.server, arm)
                                                : arm.command;
  if (argv == expected) return;
  const auto more = Surplus(argv, expected);
  const auto less = Surplus(expected, argv);
  std::vector<std::string> parts;
  if (!more.empty()) parts.push_back("has " + base::JoinList(more) + ", not in the plan");
  if (!less.empty()) parts.push_back("lacks " + base::JoinList(less) + " of the plan");
  if (parts.empty()) parts.emplace_back("has the plan's in another order");
  problems.push_back({Finding::kArgumentsDiffer,
                      fmt::format("{}: its command {}", BootText(boot), base::JoinList(parts))});
}

// "x by boots 1 and 3, y by boot 2"
std::string GroupsText(const std::map<std::string, std::vector<int>>& groups, bool digests) {
  std::vector<std::string> parts;
  for (const auto& [value, boots] : groups) {
    std::vector<std::string> numbers;
    for (const int boot : boots) numbers.push_back(std::to_string(boot));
    parts.push_back(fmt::format("{} in boot{} {}", digests ? ShortDigest(value) : Shown(value),
                                boots.size() == 1 ? "" : "s", base::JoinList(numbers)));
  }
  return base::JoinList(parts);
}

std::string GpusText(const BootRecord& boot) {
  if (boot.gpus.empty()) return "no allocated GPUs";
  return fmt::format("GPUs {}", fmt::join(boot.gpus, ","));
}

void FindClientProblems(const std::vector<const BootRecord*>& boots,
                        std::vector<Problem>& problems) {
  std::map<std::string, std::vector<int>> clients;
  for (const BootRecord* boot : boots) {
    if (boot->client_sha256.empty()) {
      problems.push_back(
          {Finding::kNotRecorded, BootText(*boot) + ": the digest of its client is not recorded"});
    } else {
      clients[boot->client_sha256].push_back(boot->number);
    }
  }
  if (clients.size() > 1) {
    problems.push_back(
        {Finding::kClientChanged, "measured by different clients: " + GroupsText(clients, true)});
  }
}

struct Measured {
  const RoundSummary* round = nullptr;
  std::string arm;
};

std::string Where(const Measured& measured) {
  return fmt::format("boot {} ({})", measured.round->boot, Shown(measured.arm));
}

void FindInputProblems(const plan::Case& of, const std::vector<Measured>& rounds,
                       std::vector<Problem>& problems) {
  std::map<int, const Measured*> first_by_round;
  std::map<std::pair<int, std::string>, int> seen_by_boot;
  for (const Measured& measured : rounds) {
    const RoundSummary& round = *measured.round;
    const std::string place = fmt::format("{} round {}", Shown(of.name), round.round);
    if (round.planned != of.requests) {
      problems.push_back({Finding::kInputsDiffer,
                          fmt::format("{}: {} planned {} requests, the plan says {}", place,
                                      Where(measured), round.planned, of.requests)});
    }
    if (round.counts.requests != of.requests) {
      problems.push_back({Finding::kNotMeasured,
                          fmt::format("{}: {} sent {} of {} requests, so its inputs cannot be "
                                      "compared",
                                      place, Where(measured), round.counts.requests, of.requests)});
      continue;
    }
    if (round.inputs.empty()) {
      problems.push_back({Finding::kNotRecorded,
                          fmt::format("{}: the fingerprint of the inputs of {} is not recorded",
                                      place, Where(measured))});
      continue;
    }
    const auto [repeated, fresh] =
        seen_by_boot.try_emplace({round.boot, round.inputs}, round.round);
    if (!fresh && of.prompts.fresh) {
      problems.push_back(
          {Finding::kInputsRepeated, fmt::format("{}: {} was sent the prompts of round {} again",
                                                 place, Where(measured), repeated->second)});
    }
    const auto [first, is_first] = first_by_round.try_emplace(round.round, &measured);
    if (!is_first && first->second->round->inputs != round.inputs) {
      problems.push_back(
          {Finding::kInputsDiffer, fmt::format("{}: the request bodies of {} and {} differ", place,
                                               Where(*first->second), Where(measured))});
    }
  }
}

// Rounds of a host that was changed between them are of two hosts.
void FindHostChanges(const plan::Case& of, const std::vector<const BootRecord*>& boots,
                     std::vector<Problem>& problems) {
  std::map<std::string, std::map<std::string, std::vector<int>>> by_fact;
  for (const BootRecord* boot : boots) {
    for (const evidence::Fact& fact : boot->host_facts) {
      if (!fact.compared || fact.state == evidence::FactState::kUnknown) continue;
      const bool present = fact.state == evidence::FactState::kPresent;
      by_fact[fact.name][present ? fact.value : "absent"].push_back(boot->number);
    }
  }
  for (const auto& [fact, values] : by_fact) {
    if (values.size() < 2) continue;
    problems.push_back({Finding::kHostsDiffer,
                        fmt::format("{}: the host was changed between boots: {}: {}",
                                    Shown(of.name), Shown(fact), GroupsText(values, false))});
  }
}

void FindCaseProblems(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                      const plan::Case& of, const std::vector<std::string>& arms,
                      std::vector<Problem>& problems) {
  std::vector<Measured> rounds;
  std::set<int> boots;
  for (const std::string& arm : arms) {
    for (const RoundSummary& round : RoundsOf(summary, of.name, arm)) {
      rounds.push_back({&round, arm});
      boots.insert(round.boot);
    }
    // What the plan never asks of an arm (an attribution arm's few cases) is no gap.
    const Coverage coverage = Cover(plan, summary, of, arm);
    if (coverage.planned_rounds == 0) continue;
    for (const std::string& gap : coverage.gaps) {
      problems.push_back(
          {Finding::kNotMeasured, fmt::format("{}: {}: {}", Shown(of.name), Shown(arm), gap)});
    }
  }
  std::map<std::string, std::vector<int>> hosts;
  std::map<std::string, std::vector<int>> servers;
  std::map<std::string, std::vector<int>> gpus;
  std::vector<const BootRecord*> records;
  for (const int number : boots) {
    const BootRecord* boot = summary.FindBoot(number);
    if (boot == nullptr) continue;
    records.push_back(boot);
    if (boot->host.empty()) {
      problems.push_back({Finding::kNotRecorded, fmt::format("{}: the host of {} is not recorded",
                                                             Shown(of.name), BootText(*boot))});
    } else {
      hosts[boot->host].push_back(number);
      servers[boot->server_host.empty() ? boot->host : boot->server_host].push_back(number);
    }
    gpus[GpusText(*boot)].push_back(number);
  }
  if (hosts.size() > 1) {
    problems.push_back(
        {Finding::kHostsDiffer, fmt::format("{}: measured on different hosts: {}", Shown(of.name),
                                            GroupsText(hosts, false))});
  }
  if (hosts.size() == 1 && servers.size() > 1) {
    problems.push_back(
        {Finding::kHostsDiffer,
         fmt::format("{}: served by different hosts: {}; where these are names of one machine, let "
                     "the identity command print its \"host\"",
                     Shown(of.name), GroupsText(servers, false))});
  }
  // Of one host: another one is another finding, and its indices mean other GPUs.
  if (hosts.size() == 1 && gpus.size() > 1) {
    problems.push_back(
        {Finding::kGpusDiffer, fmt::format("{}: measured on different GPUs: {}", Shown(of.name),
                                           GroupsText(gpus, false))});
  }
  if (hosts.size() == 1) FindHostChanges(of, records, problems);
  FindInputProblems(of, rounds, problems);
}

bool IsOrdered(const plan::ResolvedPlan& plan, const std::string& arm) {
  return std::any_of(plan.order.begin(), plan.order.end(),
                     [&](const plan::BootStep& step) { return step.arm == arm; });
}

}  // namespace

std::vector<int> UsedBoots(const evidence::Summary& summary,
                           const std::vector<const plan::Case*>& cases,
                           const std::vector<std::string>& arms) {
  std::set<int> used;
  for (const plan::Case* of : cases) {
    for (const std::string& arm : arms) {
      for (const RoundSummary& round : RoundsOf(summary, of->name, arm)) used.insert(round.boot);
    }
  }
  return {used.begin(), used.end()};
}

std::vector<Problem> FindProblems(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                                  const std::vector<const plan::Case*>& cases,
                                  const std::vector<std::string>& arms) {
  std::vector<Problem> problems;
  std::vector<const BootRecord*> boots;
  for (const int number : UsedBoots(summary, cases, arms)) {
    const BootRecord* boot = summary.FindBoot(number);
    const plan::Arm* arm = boot == nullptr ? nullptr : plan.FindArm(boot->arm);
    if (arm == nullptr) {
      problems.push_back({Finding::kNotRecorded,
                          fmt::format("boot {}: there is no record of it, or of an arm that the "
                                      "plan does not have",
                                      number)});
      continue;
    }
    boots.push_back(boot);
    FindPinProblems(plan, *arm, *boot, problems);
    FindIdentityProblems(*arm, *boot, problems);
    FindArgumentProblems(plan, *arm, *boot, problems);
  }
  FindClientProblems(boots, problems);
  for (const plan::Case* of : cases) FindCaseProblems(plan, summary, *of, arms, problems);
  return problems;
}

namespace {

int Weight(Verdict verdict) {
  return verdict == Verdict::kFail ? 2 : verdict == Verdict::kInconclusive ? 1 : 0;
}

}  // namespace

GateResult JudgeProvenance(const plan::ResolvedPlan& plan, const plan::Gate& gate,
                           const evidence::Summary& summary) {
  GateResult result = StartResult(gate);
  const auto cases = plan.Select(gate.selection);
  std::vector<std::string> arms;
  for (const plan::Arm& arm : plan.arms) {
    if (arm.role != plan::ArmRole::kAttribution || IsOrdered(plan, arm.name)) {
      arms.push_back(arm.name);
    }
  }
  std::vector<Problem> problems = FindProblems(plan, summary, cases, arms);
  for (const std::string& arm : arms) {
    if (UsedBoots(summary, cases, {arm}).empty()) {
      problems.push_back({Finding::kNotMeasured, Shown(arm) + ": no boot of it measured anything"});
    }
  }
  for (Problem& problem : FindFactProblems(plan, summary, cases)) {
    problems.push_back(std::move(problem));
  }
  if (cases.empty() || arms.empty()) {
    problems.push_back({Finding::kNotMeasured, "there is nothing to prove the provenance of"});
  }
  // What fails is said before what is only unknown, and that before what is only told.
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    return Weight(RowOf(a.finding).verdict) > Weight(RowOf(b.finding).verdict);
  });

  result.boots = static_cast<int>(UsedBoots(summary, cases, arms).size());
  for (const plan::Case* of : cases) {
    for (const std::string& arm : arms) result.rounds += Cover(plan, summary, *of, arm).rounds;
  }
  std::vector<std::string> sentences, notes;
  for (const Problem& problem : problems) {
    const bool passes = RowOf(problem.finding).verdict == Verdict::kPass;
    (passes ? notes : sentences).push_back(problem.sentence);
  }
  result.explanation.push_back(
      fmt::format("provenance of {} in {}: pins and arguments against the plan, one client, one "
                  "host and one set of GPUs a case, identical request bodies round by round",
                  Count(result.rounds, "round"), Count(result.boots, "boot")));
  const int facts = ComparedFacts(plan, summary, cases);
  if (facts > 0) {
    result.explanation.push_back(
        fmt::format("  execution path: {} of both arms compared; boots/*/facts.json has them all",
                    Count(facts, "fact")));
  }
  for (const Problem& problem : problems) {
    result.explanation.push_back(fmt::format("  {}: {}", Name(problem.finding), problem.sentence));
  }
  if (sentences.empty()) {
    result.verdict = Verdict::kPass;
    result.finding = problems.empty() ? Finding::kNone : problems.front().finding;
    result.message = fmt::format(
        "pins, arguments, client, host and inputs are what the plan says ({}, {}, {}{}): pass",
        Count(result.boots, "boot"), Count(result.rounds, "round"), Count(cases.size(), "case"),
        facts > 0 ? ", " + Count(facts, "fact") : "");
    if (!notes.empty()) result.message += fmt::format("; {}", fmt::join(notes, "; "));
  } else {
    result.verdict = RowOf(problems.front().finding).verdict;
    result.finding = problems.front().finding;
    result.message =
        fmt::format("{}: {}", Count(sentences.size(), "problem"), fmt::join(sentences, "; "));
    if (!notes.empty()) result.message += fmt::format("; told: {}", fmt::join(notes, "; "));
  }
  result.explanation.push_back(
      fmt::format("  verdict: {} ({})", Name(result.verdict), Describe(result.finding)));
  result.explanation.emplace_back(
      sentences.empty()
          ? "  next: nothing to do"
          : "  next: check pins and arguments in boots/*/boot.json, and capture again");
  return result;
}

}  // namespace upgrade_gate::gates
