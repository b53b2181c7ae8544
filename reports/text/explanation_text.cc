#include <fmt/format.h>

#include "reports/text/numbers.h"
#include "reports/text/page.h"
#include "reports/text/summary_text.h"
#include "reports/text/table.h"

namespace upgrade_gate::text {
namespace {

std::string ShowOptional(const std::optional<double>& value) {
  return value ? ShowNumber(*value) : "–";
}

std::string ShowInterval(const std::optional<gates::Interval>& interval) {
  if (!interval) return "none";
  return fmt::format("[{}, {}]", ShowNumber(interval->lower), ShowNumber(interval->upper));
}

std::string UnitOf(plan::GateKind kind) {
  switch (kind) {
    case plan::GateKind::kThroughput:
      return " tok/s";
    case plan::GateKind::kLatency:
      return " ms";
    case plan::GateKind::kFailures:
    case plan::GateKind::kProvenance:
    case plan::GateKind::kNative:
      break;
  }
  return "";
}

}  // namespace

std::string RenderExplanation(const gates::GateResult& gate, const TextOptions& options) {
  Page page(options.color);
  const Style style = gate.verdict == gates::Verdict::kPass   ? Style::kGood
                      : gate.verdict == gates::Verdict::kFail ? Style::kBad
                                                              : Style::kWarning;
  page.Line({{style, std::string(gates::Name(gate.verdict))}, {Style::kBold, "  " + gate.id}});
  page.Line(fmt::format("  a {} {} gate, {}:{}:{}; finding: {}", plan::Name(gate.severity),
                        plan::Name(gate.kind), options.plan_file, gate.location.line,
                        gate.location.column, gates::Name(gate.finding)));
  page.Blank();
  page.Wrapped({{Style::kPlain, "  "}}, gate.message, 2);
  page.Blank();
  page.Heading("Numbers");
  page.Line(fmt::format(
      "  estimate {}, interval {}, threshold {}; of the arm with fewer: rounds {}, boots {}",
      ShowOptional(gate.estimate), ShowInterval(gate.interval), ShowOptional(gate.margin),
      gate.rounds, gate.boots));
  if (!gate.cases.empty()) {
    const std::string unit = UnitOf(gate.kind);
    Table table({"case", "verdict", "baseline" + unit, "candidate" + unit, "estimate", "interval",
                 "rounds", "boots"});
    for (const gates::CaseResult& of : gate.cases) {
      table.Row({of.case_name, std::string(gates::Name(of.verdict)), ShowOptional(of.baseline),
                 ShowOptional(of.candidate), ShowOptional(of.estimate), ShowInterval(of.interval),
                 fmt::format("{}", of.rounds), fmt::format("{}", of.boots)});
    }
    page.Blank();
    table.Print(page);
  }
  // The gate's own message is that of the case that decides.
  if (gate.cases.size() > 1) {
    page.Blank();
    for (const gates::CaseResult& of : gate.cases) {
      page.Wrapped({{Style::kPlain, "  "}}, of.message, 4);
    }
  }
  page.Blank();
  page.Heading("Why, and what to do");
  if (gate.explanation.empty()) page.Line("  the gate left no explanation");
  for (const std::string& line : gate.explanation) page.Wrapped({{Style::kPlain, "  "}}, line, 4);
  return page.Take();
}

}  // namespace upgrade_gate::text
