#include "framework/evidence/client_health.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/result.h"

namespace upgrade_gate::evidence {
namespace {

constexpr double kMostInexact = 0.01;          // of the reads …
constexpr std::int64_t kFewInexact = 10;       // … but a few say nothing of a short round
constexpr double kLateOfTtft = 0.01;           // of the median TTFT …
constexpr std::chrono::milliseconds kLate{1};  // … but never less
constexpr double kLeastDelivered = 0.95;       // of the asked concurrency or rate
constexpr double kBusyThread = 0.5;            // of a core
constexpr double kHighPressure = 0.25;         // of the time
constexpr std::chrono::milliseconds kLongLag{1};

double Ms(base::Nanoseconds span) {
  return std::chrono::duration<double, std::milli>(span).count();
}

double Share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

std::string_view Name(ClientFault fault) {
  switch (fault) {
    case ClientFault::kClientBound:
      return "client_bound";
    case ClientFault::kLoadNotDelivered:
      return "load_not_delivered";
  }
  UG_CHECK(false && "a fault without a name");
  return "";
}

std::vector<ClientFinding> FindClientFaults(const ClientHealth& health,
                                            std::optional<double> ttft_ms) {
  std::vector<ClientFinding> faults;
  const double share = Share(health.inexact_reads, health.reads);
  if (share > kMostInexact && health.inexact_reads > kFewInexact) {
    faults.push_back(
        {ClientFault::kClientBound,
         fmt::format("{:.1f} % of {} reads were so late that several texts have one stamp, "
                     "more than {:.0f} %: give the client a core of its own",
                     100 * share, health.reads, 100 * kMostInexact)});
  }
  // A closed loop has no schedule: its latencies start when the slot became free,
  // so that lateness is in them.
  const double late_limit = std::max(Ms(kLate), kLateOfTtft * ttft_ms.value_or(0));
  if (health.open_loop && Ms(health.send_late_p99) > late_limit) {
    faults.push_back({ClientFault::kClientBound,
                      fmt::format("requests were sent late: P99 {:.2f} ms, more than {:.2f} ms: "
                                  "give the client a core of its own",
                                  Ms(health.send_late_p99), late_limit)});
  }
  if (health.held_back > 0) {
    faults.push_back({ClientFault::kLoadNotDelivered,
                      fmt::format("{} requests were held back, since as many as allowed were in "
                                  "flight: the server does not keep up with the rate, or "
                                  "max_in_flight is too small",
                                  health.held_back)});
    return faults;
  }
  // A closed loop on a server that answers at once is mostly turning round; only
  // where the client was late to do so is it the client's doing.
  const bool by_client = health.open_loop || health.send_late_p99 > kLate;
  if (by_client && health.delivered && *health.delivered < kLeastDelivered * health.asked) {
    faults.push_back(
        {ClientFault::kLoadNotDelivered,
         health.open_loop
             ? fmt::format("{:.4g} requests/s were sent, asked for were {:.4g}", *health.delivered,
                           health.asked)
             : fmt::format("{:.4g} requests were in flight on average, asked for were {:.4g}",
                           *health.delivered, health.asked)});
  }
  return faults;
}

std::vector<std::string> ClientNotes(const ClientHealth& health) {
  std::vector<std::string> notes;
  if (health.lag_p99 > kLongLag) {
    notes.push_back(
        fmt::format("read late: P99 {:.2f} ms (arrivals are the kernel's)", Ms(health.lag_p99)));
  }
  if (health.unstamped_reads > 0) {
    notes.push_back(
        fmt::format("{} of {} reads without a kernel stamp", health.unstamped_reads, health.reads));
  }
  if (health.cpu_share > kBusyThread) {
    notes.push_back(fmt::format("a client thread used {:.0f} % of a core", 100 * health.cpu_share));
  }
  if (health.cpu_pressure > kHighPressure) {
    notes.push_back(
        fmt::format("for {:.0f} % of the time somebody on the client's machine waited for a CPU",
                    100 * *health.cpu_pressure));
  }
  if (health.new_connections > 0) {
    notes.push_back(fmt::format("{} connections made while measuring, the slowest in {:.2f} ms",
                                health.new_connections, Ms(health.connect_max)));
  }
  if (health.retransmits > 0) {
    notes.push_back(fmt::format("{} TCP segments sent again", health.retransmits));
  }
  return notes;
}

}  // namespace upgrade_gate::evidence
