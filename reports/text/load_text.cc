#include "reports/text/load_text.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "framework/base/text.h"
#include "framework/evidence/client_health.h"
#include "reports/text/numbers.h"
#include "reports/text/page.h"
#include "reports/text/table.h"

namespace upgrade_gate::text {
namespace {

using evidence::LoadLatency;
using evidence::LoadNumbers;
using evidence::LoadRoundNumbers;

constexpr std::size_t kLabelWidth = 17;
constexpr int kShownPercentiles[] = {50, 95, 99};

std::string_view Title(LoadLatency latency) {
  switch (latency) {
    case LoadLatency::kTtft:
      return "TTFT";
    case LoadLatency::kTpot:
      return "TPOT";
    case LoadLatency::kInterChunk:
      return "inter-chunk";
    case LoadLatency::kE2e:
      break;
  }
  return "E2E";
}

std::optional<double> At(const std::map<int, double>& percentiles, int percentile) {
  const auto found = percentiles.find(percentile);
  return found == percentiles.end() ? std::nullopt : std::optional(found->second);
}

std::string ShowSeconds(double seconds) {
  return fmt::format("{:.2f} s", seconds);
}

std::string ShowRate(std::optional<double> per_second) {
  return per_second ? fmt::format("{:.2f}", *per_second) : "–";
}

void Labelled(Page& page, std::string_view label, std::string_view text,
              Style style = Style::kPlain) {
  page.Wrapped({{Style::kPlain, "  "}, {style, PadRight(label, kLabelWidth - 2)}}, text,
               kLabelWidth);
}

void PrintHeader(Page& page, const LoadPage& of) {
  page.Line({{Style::kBold, "LOAD  " + of.url}});
  page.Blank();
  Labelled(page, "model", of.model);
  Labelled(page, "load", of.load);
  Labelled(page, "input", of.input);
  Labelled(page, "output", of.output);
  Labelled(page, "measured", of.started_at);
  if (!of.incomplete.empty()) Labelled(page, "INCOMPLETE", of.incomplete, Style::kBad);
}

void PrintRounds(Page& page, const LoadNumbers& numbers) {
  page.Blank();
  Table table({"round", "output tok/s", "requests/s", "duration", "failed"});
  for (const LoadRoundNumbers& round : numbers.rounds) {
    const evidence::RoundSummary& of = round.summary;
    table.Row({fmt::format("{}", of.round), ShowThroughput(of.output_tokens_per_s),
               ShowRate(round.requests_per_s), ShowSeconds(of.duration_s),
               ShowCount(of.counts.failed(), of.counts.requests)});
  }
  if (numbers.rounds.size() > 1) {
    table.Row({"all", ShowThroughput(numbers.output_tokens_per_s), ShowRate(numbers.requests_per_s),
               ShowSeconds(numbers.duration_s),
               ShowCount(numbers.counts.failed(), numbers.counts.requests)});
  }
  table.Print(page);
}

// "P99: max of 64", the percentiles that are but the largest value.
std::string DescribeMaxima(const evidence::ValueCount& count) {
  if (count.most == 0) return "no value";
  const std::string highest = evidence::DescribePercentile(99, count);
  if (highest.starts_with("P99")) return highest;  // not always the largest
  const std::string next = evidence::DescribePercentile(95, count);
  return (next.starts_with("P95") ? "P99: " : "P95, P99: ") + highest;
}

void PrintLatencies(Page& page, const LoadNumbers& numbers) {
  page.Blank();
  Table table({"latency", "P50", "P95", "P99", "values"});
  const auto row = [&](std::string name, const std::map<int, double>& percentiles,
                       const evidence::ValueCount& count) {
    std::vector<std::string> cells{std::move(name)};
    for (const int percentile : kShownPercentiles) {
      cells.push_back(ShowMilliseconds(At(percentiles, percentile)));
    }
    cells.push_back(DescribeMaxima(count));
    table.Row(std::move(cells));
  };
  for (const LoadLatency latency : evidence::kAllLoadLatencies) {
    const auto all = numbers.latency_ms.find(latency);
    row(std::string(Title(latency)),
        all == numbers.latency_ms.end() ? std::map<int, double>() : all->second,
        numbers.values.at(latency));
    if (numbers.rounds.size() < 2) continue;
    for (const LoadRoundNumbers& round : numbers.rounds) {
      const evidence::Latency& of = round.latency.at(latency);
      row(fmt::format("  round {}", round.summary.round), of.percentiles_ms, {of.count, of.count});
    }
  }
  table.Print(page);
}

void PrintDefinitions(Page& page, const LoadNumbers& numbers) {
  const bool several = numbers.rounds.size() > 1;
  page.Blank();
  Labelled(page, "output tok/s",
           "output tokens of successful requests, by usage / the round's whole duration");
  Labelled(page, "requests/s", "successful requests / the round's whole duration");
  for (const LoadLatency latency : evidence::kAllLoadLatencies) {
    Labelled(page, Title(latency), evidence::Describe(latency));
  }
  Labelled(page, "P50, P95, P99",
           "nearest rank within a round over its successful requests; of few values it is their "
           "maximum");
  if (several) {
    Labelled(page, "all", "the median over the rounds; duration and failed are sums");
  }
  Labelled(page, "failed", "requests that were not accepted / requests sent");
}

void PrintRequests(Page& page, const LoadNumbers& numbers) {
  const evidence::FailureCounts& counts = numbers.counts;
  page.Blank();
  page.Heading("Requests");
  page.Wrapped(
      {{Style::kPlain, "  "}},
      fmt::format(
          "{} sent{}; failed: {} ({}), of this load, not a production rate",
          base::WithThousands(counts.requests),
          numbers.planned ? " of " + base::WithThousands(*numbers.planned) + " planned" : "",
          ShowCount(counts.failed(), counts.requests), ShowShare(counts.failed(), counts.requests)),
      4);
  for (const auto& [kind, count] : counts.by_kind) {
    page.Wrapped({{Style::kPlain, "  "},
                  {Style::kBad, std::string(evidence::Name(kind))},
                  {Style::kPlain, " "}},
                 fmt::format("({}): {} ({})", evidence::Describe(kind),
                             ShowCount(count, counts.requests), ShowShare(count, counts.requests)),
                 4);
    if (const auto example = numbers.examples.find(kind);
        example != numbers.examples.end() && !example->second.empty()) {
      constexpr std::size_t kMostShown = 300;
      page.Wrapped({{Style::kPlain, "    the first: "}},
                   base::Shorten(base::Visible(example->second), kMostShown), 6);
    }
  }
  if (numbers.warmup.requests > 0) {
    page.Line(fmt::format("  warm-up, counted apart; failed: {}",
                          ShowCount(numbers.warmup.failed(), numbers.warmup.requests)));
  }
}

void PrintClient(Page& page, const LoadNumbers& numbers) {
  page.Blank();
  page.Heading("Client");
  if (numbers.client_valid()) {
    page.Line({{Style::kPlain, "  "},
               {Style::kGood, "valid"},
               {Style::kPlain, ": the numbers are the server's"}});
  }
  for (const LoadRoundNumbers& round : numbers.rounds) {
    const std::string place = fmt::format("round {}: ", round.summary.round);
    for (const evidence::ClientFinding& finding : round.findings) {
      page.Wrapped({{Style::kPlain, "  "},
                    {Style::kBad, fmt::format("INVALID ({})", evidence::Name(finding.fault))},
                    {Style::kPlain, " "}},
                   place + finding.sentence, 4);
    }
    for (const std::string& note : evidence::ClientNotes(*round.summary.client)) {
      page.Wrapped({{Style::kPlain, "  "}}, place + note, 4);
    }
  }
}

void PrintConditions(Page& page, const std::vector<gates::FailIfResult>& conditions) {
  if (conditions.empty()) return;
  page.Blank();
  page.Heading("Fail if");
  for (const gates::FailIfResult& condition : conditions) {
    const bool passes = condition.verdict == gates::Verdict::kPass;
    const bool holds = condition.verdict == gates::Verdict::kFail;
    page.Wrapped({{Style::kPlain, "  "},
                  {passes  ? Style::kGood
                   : holds ? Style::kBad
                           : Style::kWarning,
                   PadRight(passes  ? "no"
                            : holds ? "HOLDS"
                                    : "UNDECIDED",
                            11)},
                  {Style::kBold, condition.expression},
                  {Style::kPlain, "  "}},
                 condition.message, 13);
  }
}

void PrintDecision(Page& page, const LoadPage& of) {
  page.Blank();
  Span word{Style::kWarning, "INCONCLUSIVE"};
  if (of.decision == gates::Decision::kAccept) word = {Style::kGood, "OK"};
  if (of.decision == gates::Decision::kReject) word = {Style::kBad, "FAILED"};
  if (!of.incomplete.empty()) word = {Style::kBad, "INCOMPLETE"};
  page.Wrapped({word, {Style::kPlain, "  "}}, of.reason, 4);
}

}  // namespace

std::string RenderLoad(const LoadPage& of, Color color) {
  Page page(color);
  PrintHeader(page, of);
  PrintRounds(page, of.numbers);
  PrintLatencies(page, of.numbers);
  PrintDefinitions(page, of.numbers);
  PrintRequests(page, of.numbers);
  PrintClient(page, of.numbers);
  PrintConditions(page, of.conditions);
  PrintDecision(page, of);
  return page.Take();
}

}  // namespace upgrade_gate::text
