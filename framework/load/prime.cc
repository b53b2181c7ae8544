#include "framework/load/prime.h"

#include <chrono>
#include <vector>

#include "framework/load/shards.h"

namespace upgrade_gate::load {
namespace {

// Drops what is delivered: only that the transfers ended is of interest.
class CountingSink final : public TransferSink {
 public:
  void OnHead(TransferId, const ResponseHead&, base::Instant) override {}
  void OnBody(TransferId, std::string_view, const Arrival&) override {}
  void OnEnd(TransferId, const TransferEnd&, base::Instant) override { ++ended; }
  int ended = 0;
};

base::Status Prime(Transport& transport, base::Clock& clock, const HttpRequest& health,
                   int connections) {
  CountingSink sink;
  std::vector<TransferId> transfers;
  base::Status status;
  while (status && static_cast<int>(transfers.size()) < connections) {
    const auto id = transport.Start(health, sink);
    if (id) transfers.push_back(*id);
    if (!id) status = tl::unexpected(id.error());
  }
  const base::Instant deadline = clock.now() + std::chrono::seconds(5);
  while (status && sink.ended < connections && clock.now() < deadline) {
    status = transport.Poll(deadline);
  }
  for (const TransferId id : transfers) transport.Cancel(id);
  return status;
}

}  // namespace

base::Status PrimeConnections(std::span<Transport* const> transports, base::Clock& clock,
                              const std::string& base_url, int connections) {
  HttpRequest health;
  health.method = "GET";
  health.url = base_url + "/health";
  for (std::size_t i = 0; i < transports.size(); ++i) {
    UG_TRY(Prime(*transports[i], clock, health, ShareOf(connections, i, transports.size())));
  }
  return {};
}

}  // namespace upgrade_gate::load
