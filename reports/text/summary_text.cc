#include "reports/text/summary_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "framework/base/text.h"
#include "framework/evidence/layout.h"
#include "reports/text/numbers.h"
#include "reports/text/page.h"
#include "reports/text/table.h"

namespace upgrade_gate::text {
namespace {

constexpr std::size_t kLabelWidth = 17;

struct View {
  const plan::ResolvedPlan& plan;
  const evidence::Summary& summary;
  const gates::Judgement& judgement;
  const TextOptions& options;
};

Style StyleOf(gates::Decision decision) {
  switch (decision) {
    case gates::Decision::kAccept:
      return Style::kGood;
    case gates::Decision::kReject:
      return Style::kBad;
    case gates::Decision::kInconclusive:
      break;
  }
  return Style::kWarning;
}

std::string Upper(std::string_view word) {
  std::string out(word);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

void Labelled(Page& page, std::string_view label, std::string_view text,
              Style style = Style::kPlain) {
  page.Wrapped({{Style::kPlain, "  "}, {style, PadRight(label, kLabelWidth - 2)}}, text,
               kLabelWidth);
}

std::string ShortDigest(const base::Sha256Hex& digest) {
  return digest.empty() ? "identity not proved" : digest.substr(0, 12);
}

std::string VersionOf(const evidence::Summary& summary, const std::string& arm) {
  std::set<std::string> versions;
  for (const evidence::BootRecord& boot : summary.boots) {
    if (boot.arm == arm && !boot.version.empty()) versions.insert(boot.version);
  }
  if (versions.empty()) return "version unknown";
  return "version " + base::JoinList({versions.begin(), versions.end()});
}

std::string DescribeBoots(const evidence::Summary& summary) {
  if (summary.boots.empty()) return "none";
  std::string out;
  for (const evidence::BootRecord& boot : summary.boots) {
    if (!out.empty()) out += "; ";
    out += fmt::format("{:02} {}", boot.number, boot.arm);
    if (boot.resumes) out += fmt::format(" (goes on with boot {:02})", *boot.resumes);
    if (boot.ready_after.count() > 0) {
      out += fmt::format(", ready after {:.1f} s",
                         std::chrono::duration<double>(boot.ready_after).count());
    }
    if (boot.stopped != evidence::StopReason::kNone) {
      out += fmt::format(", ended by {}", evidence::Name(boot.stopped));
      if (!boot.stop_detail.empty()) out += ": " + boot.stop_detail;
    }
  }
  return out;
}

// The arms in the plan's order, then any that only the evidence knows.
std::vector<std::string> ArmNames(const View& view) {
  std::vector<std::string> names;
  for (const plan::Arm& arm : view.plan.arms) names.push_back(arm.name);
  for (const auto& [name, total] : view.summary.arms) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

evidence::FailureCounts CountsOf(const evidence::Summary& summary, const std::string& arm) {
  const auto found = summary.arms.find(arm);
  return found == summary.arms.end() ? evidence::FailureCounts{} : found->second.counts;
}

// {formal requests, failed ones} of all arms.
std::pair<std::int64_t, std::int64_t> AllRequests(const evidence::Summary& summary) {
  std::pair<std::int64_t, std::int64_t> total;
  for (const auto& [name, arm] : summary.arms) {
    total.first += arm.counts.requests;
    total.second += arm.counts.failed();
  }
  return total;
}

// How far it goes, by the arm's weakest boot.
std::string IdentityText(const evidence::Summary& summary, const std::string& arm,
                         const base::Sha256Hex& identity) {
  auto strength = evidence::IdentityStrength::kContent;
  for (const evidence::BootRecord& boot : summary.boots) {
    if (boot.arm == arm) strength = std::max(strength, boot.strength);
  }
  switch (strength) {
    case evidence::IdentityStrength::kContent:
      break;
    case evidence::IdentityStrength::kFile:
      return ShortDigest(identity) + " (the image's file)";
    case evidence::IdentityStrength::kClaimed:
      return "identity: claimed by the server, not proved";
  }
  return ShortDigest(identity);
}

void PrintArm(Page& page, const View& view, const plan::Arm* arm, std::string_view role,
              const base::Sha256Hex& identity) {
  if (arm == nullptr) {
    Labelled(page, role, "none in this plan");
    return;
  }
  std::string text =
      IdentityText(view.summary, arm->name, identity) + ", " + VersionOf(view.summary, arm->name);
  if (arm->name != role) text = "arm " + arm->name + ", " + text;
  Labelled(page, role, text);
}

void PrintHeader(Page& page, const View& view) {
  const evidence::CaptureRecord& capture = view.summary.capture;
  page.Line({{StyleOf(view.judgement.decision), Upper(gates::Name(view.judgement.decision))},
             {Style::kBold, "  " + view.plan.name}});
  page.Blank();
  Labelled(page, "plan", view.options.plan_file);
  PrintArm(page, view, view.plan.candidate(), "candidate", view.judgement.candidate_identity);
  PrintArm(page, view, view.plan.baseline(), "baseline", view.judgement.rollback_identity);
  Labelled(page, "measured",
           fmt::format("{} on {}",
                       capture.started_at.empty() ? "at an unknown time" : capture.started_at,
                       capture.host.empty() ? "an unknown host" : capture.host));
  Labelled(page, "boots", DescribeBoots(view.summary));
  if (view.judgement.rejudged) {
    Labelled(page, "re-judged", "after capture, by a plan with other gates than the captured one",
             Style::kWarning);
  }
  if (view.judgement.complete) {
    Labelled(page, "orchestration", "complete: the run did what the plan says");
  } else {
    Labelled(page, "orchestration", "INCOMPLETE: the run did not do what the plan says",
             Style::kBad);
  }
  for (const std::string& incident : view.judgement.incidents) Labelled(page, "", "- " + incident);
  const auto [requests, failed] = AllRequests(view.summary);
  if (requests == 0) {
    Labelled(page, "requests", "NONE was sent: there is nothing to judge", Style::kBad);
  } else {
    Labelled(page, "requests",
             fmt::format("{} of {} formal requests succeeded, {} failed",
                         base::WithThousands(requests - failed), base::WithThousands(requests),
                         base::WithThousands(failed)));
  }
}

const gates::CaseComparison* ComparisonOf(const View& view, const std::string& case_name) {
  for (const gates::CaseComparison& comparison : view.judgement.cases) {
    if (comparison.name == case_name) return &comparison;
  }
  return nullptr;
}

std::string ShowArmThroughput(const ArmNumbers& arm) {
  return arm.rounds == 0 ? "not run" : ShowThroughput(arm.tokens_per_s);
}

std::string ShowFailed(const ArmNumbers& arm) {
  return arm.rounds == 0 ? "not run" : ShowCount(arm.counts.failed(), arm.counts.requests);
}

std::string ShowLatency(const ArmNumbers& arm, evidence::Metric metric, int percentile) {
  return arm.rounds == 0 ? "not run" : ShowMilliseconds(arm.Percentile(metric, percentile));
}

std::string ShowComparison(const gates::CaseComparison* comparison) {
  if (comparison == nullptr) return "–";
  if (comparison->dagger) return "no gain assigned †";
  if (!comparison->output_tokens_per_s) return "–";
  const auto& ratio = *comparison->output_tokens_per_s;
  std::string out = ShowRatio(ratio.estimate, ratio.interval);
  return ratio.interval ? out : out + " (no interval)";
}

void PrintCases(Page& page, const View& view) {
  const std::string baseline = view.plan.baseline() ? view.plan.baseline()->name : "";
  const std::string candidate = view.plan.candidate() ? view.plan.candidate()->name : "";
  Table throughput({"case", "baseline tok/s", "candidate tok/s", "ratio [90 % interval]",
                    "rounds b/c", "failed b", "failed c"});
  Table latency({"case", "TTFT P95 b", "TTFT P95 c", "TPOT P50 b", "TPOT P50 c", "TPOT P95 b",
                 "TPOT P95 c", "P95 is"});
  for (const plan::Case& of : view.plan.workload.cases) {
    const evidence::CaseSummary* found = view.summary.FindCase(of.name);
    const ArmNumbers b = NumbersOf(found, baseline);
    const ArmNumbers c = NumbersOf(found, candidate);
    const gates::CaseComparison* comparison = ComparisonOf(view, of.name);
    const bool dagger = b.counts.failed() + c.counts.failed() > 0;
    const std::string name = of.name + (dagger ? " †" : "");
    throughput.Row({name, ShowArmThroughput(b), ShowArmThroughput(c), ShowComparison(comparison),
                    fmt::format("{}/{}", b.rounds, c.rounds), ShowFailed(b), ShowFailed(c)});
    using evidence::Metric;
    latency.Row({name, ShowLatency(b, Metric::kTtft, 95), ShowLatency(c, Metric::kTtft, 95),
                 ShowLatency(b, Metric::kTpot, 50), ShowLatency(c, Metric::kTpot, 50),
                 ShowLatency(b, Metric::kTpot, 95), ShowLatency(c, Metric::kTpot, 95),
                 DescribeP95({&b, &c})});
  }
  page.Blank();
  page.Heading("Cases");
  throughput.Print(page);
  page.Blank();
  latency.Print(page);
}

// Arms beside baseline and candidate: shown, never part of a ratio.
void PrintFurtherArms(Page& page, const View& view) {
  Table table({"case", "arm", "tok/s", "TTFT P95", "TPOT P50", "TPOT P95", "P95 is", "failed"});
  bool any = false;
  for (const plan::Case& of : view.plan.workload.cases) {
    for (const plan::Arm& arm : view.plan.arms) {
      if (&arm == view.plan.baseline() || &arm == view.plan.candidate()) continue;
      const ArmNumbers numbers = NumbersOf(view.summary.FindCase(of.name), arm.name);
      if (numbers.rounds == 0) continue;
      any = true;
      using evidence::Metric;
      table.Row({of.name + (numbers.counts.failed() > 0 ? " †" : ""), arm.name,
                 ShowArmThroughput(numbers), ShowLatency(numbers, Metric::kTtft, 95),
                 ShowLatency(numbers, Metric::kTpot, 50), ShowLatency(numbers, Metric::kTpot, 95),
                 DescribeP95({&numbers}), ShowFailed(numbers)});
    }
  }
  if (!any) return;
  page.Blank();
  page.Heading("Further arms");
  table.Print(page);
}

void PrintDefinitions(Page& page) {
  page.Blank();
  Labelled(
      page, "tok/s",
      "output tokens of successful requests, by usage / the round's whole duration; median over "
      "rounds");
  Labelled(page, "ratio",
           "candidate / baseline output throughput; its 90 % interval leaves 5 % on each side");
  for (const evidence::Metric metric : {evidence::Metric::kTtft, evidence::Metric::kTpot}) {
    Labelled(page, Upper(evidence::Name(metric)),
             std::string(evidence::Describe(metric)) + "; successful requests only");
  }
  Labelled(
      page, "P50, P95",
      "nearest rank within a round, then the median over rounds; the P95 of fewer than 20 values "
      "is their maximum");
  Labelled(page, "failed", "formal requests that were not accepted / formal requests sent");
  Labelled(page, "b, c", "baseline, candidate");
  Labelled(
      page, "†",
      "a request of this case failed in either arm: the throughput is what was observed, and no "
      "gain is assigned");
}

void PrintTotals(Page& page, const View& view) {
  page.Blank();
  page.Heading("Requests");
  const auto [requests, failed] = AllRequests(view.summary);
  std::vector<std::string> shares;
  std::map<evidence::FailureKind, std::vector<std::string>> kinds;
  std::vector<std::string> warmups;
  std::vector<std::string> superseded;
  for (const std::string& name : ArmNames(view)) {
    const evidence::FailureCounts counts = CountsOf(view.summary, name);
    shares.push_back(counts.requests == 0
                         ? name + " not run"
                         : fmt::format("{} {} ({})", name,
                                       ShowCount(counts.failed(), counts.requests),
                                       ShowShare(counts.failed(), counts.requests)));
    for (const auto& [kind, count] : counts.by_kind) {
      if (count > 0) kinds[kind].push_back(fmt::format("{} {}", name, count));
    }
    int warmup = 0, warmup_failed = 0, rounds = 0;
    for (const evidence::CaseSummary& of : view.summary.cases) {
      const auto arm = of.arms.find(name);
      if (arm == of.arms.end()) continue;
      warmup += arm->second.warmup.requests;
      warmup_failed += arm->second.warmup.failed();
      rounds += arm->second.superseded_rounds;
    }
    if (warmup > 0) warmups.push_back(fmt::format("{} {}", name, ShowCount(warmup_failed, warmup)));
    if (rounds > 0) superseded.push_back(fmt::format("{} {}", name, rounds));
  }
  page.Wrapped(
      {{Style::kPlain, "  "}},
      fmt::format("{} formal requests; failed: {}, of this workload, not a production rate",
                  base::WithThousands(requests), fmt::join(shares, ", ")),
      4);
  for (const auto& [kind, arms] : kinds) {
    page.Wrapped({{Style::kPlain, "  "}},
                 fmt::format("{} ({}): {}", evidence::Name(kind), evidence::Describe(kind),
                             fmt::join(arms, ", ")),
                 4);
  }
  if (!warmups.empty()) {
    page.Wrapped({{Style::kPlain, "  "}},
                 fmt::format("warm-up, counted apart; failed: {}", fmt::join(warmups, ", ")), 4);
  }
  if (!superseded.empty()) {
    page.Wrapped(
        {{Style::kPlain, "  "}},
        fmt::format("superseded rounds, kept and not judged: {}", fmt::join(superseded, ", ")), 4);
  }
}

void PrintStopped(Page& page, const View& view) {
  bool any = false;
  for (const evidence::CaseSummary& of : view.summary.cases) {
    for (const auto& [arm, rounds] : of.arms) {
      for (const evidence::RoundSummary& round : rounds.rounds) {
        if (round.stopped == evidence::StopReason::kNone) continue;
        if (!any) {
          page.Blank();
          page.Heading("Rounds that ended early");
        }
        any = true;
        page.Wrapped(
            {{Style::kPlain, "  "}},
            fmt::format("{}, {}, boot {:02}, round {}: {} after {} of {} requests", of.name, arm,
                        round.boot, round.round, evidence::Name(round.stopped),
                        round.counts.requests, round.planned),
            4);
      }
    }
  }
}

// What needs a look first: failed required gates, then undecided ones, then the
// advisory ones that did not pass.
int Rank(const gates::GateResult& gate) {
  const bool required = gate.severity == plan::Severity::kRequired;
  switch (gate.verdict) {
    case gates::Verdict::kFail:
      return required ? 0 : 2;
    case gates::Verdict::kInconclusive:
      return required ? 1 : 3;
    case gates::Verdict::kPass:
      break;
  }
  return 4;
}

std::vector<const gates::GateResult*> ByRank(const gates::Judgement& judgement) {
  std::vector<const gates::GateResult*> gates;
  for (const gates::GateResult& gate : judgement.gates) gates.push_back(&gate);
  std::stable_sort(gates.begin(), gates.end(),
                   [](const auto* a, const auto* b) { return Rank(*a) < Rank(*b); });
  return gates;
}

std::string PlaceOf(const gates::GateResult& gate, const TextOptions& options) {
  const std::string file = std::filesystem::path(options.plan_file).filename().string();
  if (gate.location.line == 0) return file;
  return fmt::format("{}:{}", file, gate.location.line);
}

void PrintGates(Page& page, const View& view) {
  page.Blank();
  page.Heading("Gates");
  if (view.judgement.gates.empty()) page.Line("  none was judged");
  for (const gates::GateResult* gate : ByRank(view.judgement)) {
    const bool passed = gate->verdict == gates::Verdict::kPass;
    const Style style = passed                                   ? Style::kGood
                        : gate->verdict == gates::Verdict::kFail ? Style::kBad
                                                                 : Style::kWarning;
    std::string aside = "  " + PlaceOf(*gate, view.options);
    if (!passed) aside += fmt::format(", {}", gates::Name(gate->finding));
    page.Line({{Style::kPlain, "  "},
               {style, PadRight(Upper(gates::Name(gate->verdict)), 14)},
               {Style::kPlain, PadRight(plan::Name(gate->severity), 10)},
               {Style::kBold, gate->id},
               {Style::kDim, aside}});
    page.Wrapped({{Style::kPlain, std::string(16, ' ')}}, gate->message, 16);
  }
}

void PrintList(Page& page, std::string_view title, const std::vector<std::string>& items) {
  if (items.empty()) return;
  page.Blank();
  page.Heading(title);
  for (const std::string& item : items) page.Wrapped({{Style::kPlain, "  - "}}, item, 4);
}

void PrintDecision(Page& page, const View& view) {
  const evidence::Layout layout(view.options.run);
  page.Blank();
  page.Wrapped({{StyleOf(view.judgement.decision), Upper(gates::Name(view.judgement.decision))},
                {Style::kPlain, "  "}},
               view.judgement.reason, 4);
  page.Blank();
  Labelled(page, "evidence",
           view.judgement.evidence.empty() ? "not sealed" : "sha256:" + view.judgement.evidence);
  Labelled(page, "", layout.evidence().string());
  Labelled(page, "judgement", (layout.judgement() / "verdict.json").string());
  Labelled(page, "report", (layout.report() / "junit.xml").string());
  Labelled(page, "", (layout.report() / "verdict.env").string());
  if (view.plan.baseline() != nullptr) {
    Labelled(page, "roll back to",
             fmt::format("{}, {}", view.plan.baseline()->name,
                         view.judgement.rollback_identity.empty()
                             ? "identity not proved"
                             : "sha256:" + view.judgement.rollback_identity));
  }
  if (!view.judgement.complete) {
    Labelled(
        page, "measure anew",
        fmt::format("upgrade-gate capture {} --run {}", base::ShellWord(view.options.plan_file),
                    base::ShellWord(view.options.run.string())),
        Style::kBold);
  }
  const auto gates = ByRank(view.judgement);
  if (!gates.empty() && gates.front()->verdict != gates::Verdict::kPass) {
    Labelled(page, "next",
             fmt::format("upgrade-gate explain {} {}", base::ShellWord(view.options.run.string()),
                         base::ShellWord(gates.front()->id)),
             Style::kBold);
  }
}

}  // namespace

std::string RenderSummary(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                          const gates::Judgement& judgement, const TextOptions& options) {
  const View view{plan, summary, judgement, options};
  Page page(options.color);
  PrintHeader(page, view);
  PrintCases(page, view);
  PrintFurtherArms(page, view);
  PrintDefinitions(page);
  PrintTotals(page, view);
  PrintStopped(page, view);
  PrintGates(page, view);
  PrintList(page, "Conditions", judgement.conditions);
  PrintList(page, "Not covered", judgement.not_covered);
  PrintDecision(page, view);
  return page.Take();
}

}  // namespace upgrade_gate::text
