#include "framework/probes/fetch.h"

#include <fmt/format.h>

#include <algorithm>

namespace upgrade_gate::probes {
namespace {

class BodySink final : public load::TransferSink {
 public:
  void OnHead(load::TransferId, const load::ResponseHead& head, base::Instant) override {
    status = head.status;
  }
  void OnBody(load::TransferId, std::string_view bytes, base::Instant) override {
    over_cap = over_cap || body.size() + bytes.size() > kFetchBodyCap;
    if (!over_cap) body.append(bytes);
  }
  void OnEnd(load::TransferId, const load::TransferEnd& ended, base::Instant) override {
    end = ended;
  }

  int status = 0;
  std::string body;
  bool over_cap = false;
  std::optional<load::TransferEnd> end;
};

}  // namespace

base::Result<Fetched> Fetch(load::Transport& transport, base::Clock& clock, const std::string& url,
                            base::Instant until, const std::function<bool()>& give_up) {
  BodySink sink;
  load::HttpRequest request;
  request.method = "GET";
  request.url = url;
  UG_ASSIGN(const load::TransferId id, transport.Start(request, sink));
  Fetched fetched;
  while (!sink.end) {
    const base::Instant now = clock.now();
    if (give_up()) {
      fetched.problem = "given up";
    } else if (now >= until) {
      fetched.problem = "no whole response in time";
    } else if (sink.over_cap) {
      fetched.problem = fmt::format("a body over {} bytes", kFetchBodyCap);
    }
    if (!fetched.problem.empty()) {
      transport.Cancel(id);
      return fetched;
    }
    if (base::Status polled = transport.Poll(std::min(until, now + kAskEvery)); !polled) {
      transport.Cancel(id);
      return tl::unexpected(std::move(polled).error());
    }
  }
  if (sink.end->kind == load::TransferEnd::Kind::kComplete && !sink.over_cap) {
    fetched.status = sink.status;
    fetched.body = std::move(sink.body);
  } else {
    fetched.problem =
        sink.over_cap ? fmt::format("a body over {} bytes", kFetchBodyCap) : sink.end->detail;
  }
  return fetched;
}

}  // namespace upgrade_gate::probes
