#include "framework/gates/client.h"

#include <fmt/format.h>

#include "framework/evidence/client_health.h"
#include "framework/gates/coverage.h"
#include "framework/gates/findings.h"
#include "framework/gates/wording.h"

namespace upgrade_gate::gates {
namespace {

using evidence::RoundSummary;

Finding FindingOf(evidence::ClientFault fault) {
  return fault == evidence::ClientFault::kClientBound ? Finding::kClientBound
                                                      : Finding::kLoadNotDelivered;
}

std::string Where(const plan::Case& of, const std::string& arm, const RoundSummary& round) {
  return fmt::format("{}: round {} of boot {} ({})", Shown(of.name), round.round, round.boot,
                     Shown(arm));
}

std::optional<double> MedianTtft(const RoundSummary& round) {
  const auto ttft = round.latency.find(evidence::Metric::kTtft);
  if (ttft == round.latency.end()) return std::nullopt;
  const auto median = ttft->second.percentiles_ms.find(50);
  if (median == ttft->second.percentiles_ms.end()) return std::nullopt;
  return median->second;
}

}  // namespace

std::vector<Problem> FindClientFaults(const evidence::Summary& summary, const plan::Case& of,
                                      const std::vector<std::string>& arms) {
  std::vector<Problem> problems;
  for (const std::string& arm : arms) {
    for (const RoundSummary& round : RoundsOf(summary, of.name, arm)) {
      if (!round.throttled.empty()) {
        problems.push_back(
            {Finding::kThrottled, Where(of, arm, round) + ": " + Shown(round.throttled)});
      }
      if (!round.client) continue;
      for (const auto& fault : evidence::FindClientFaults(*round.client, MedianTtft(round))) {
        problems.push_back({FindingOf(fault.fault), Where(of, arm, round) + ": " + fault.sentence});
      }
    }
  }
  return problems;
}

std::vector<std::string> ClientLines(const plan::ResolvedPlan& plan,
                                     const evidence::Summary& summary) {
  std::vector<std::string> lines;
  for (const plan::Case& of : plan.workload.cases) {
    for (const plan::Arm& arm : plan.arms) {
      for (const Problem& problem : FindClientFaults(summary, of, {arm.name})) {
        lines.push_back(fmt::format("not valid ({}): {}", Name(problem.finding), problem.sentence));
      }
      const RoundSummary* first = nullptr;
      std::size_t noted = 0;
      const auto& rounds = RoundsOf(summary, of.name, arm.name);
      for (const RoundSummary& round : rounds) {
        if (!round.client || evidence::ClientNotes(*round.client).empty()) continue;
        if (noted++ == 0) first = &round;
      }
      if (first == nullptr) continue;
      std::string line =
          fmt::format("client, nothing invalid by it: {}: {}", Where(of, arm.name, *first),
                      fmt::join(evidence::ClientNotes(*first->client), "; "));
      if (rounds.size() > 1) {
        line += fmt::format(" ({} of {} rounds have notes)", noted, rounds.size());
      }
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

}  // namespace upgrade_gate::gates
