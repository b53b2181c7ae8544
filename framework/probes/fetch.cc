#include "framework/probes/fetch.h"

#include <fmt/format.h>

#include <algorithm>

namespace upgrade_gate::probes {
namespace {

class BodySink final : public load::TransferSink {
 public:
  explicit BodySink(load::Transport& transport) : transport_(transport) {}
  void OnHead(load::TransferId, const load::ResponseHead& head, base::Instant) override {
    status = head.status;
  }
  void OnBody(load::TransferId id, std::string_view bytes, const load::Arrival&) override {
    over_cap = body.size() + bytes.size() > kFetchBodyCap;
    if (over_cap) return transport_.Cancel(id);  // at once: Poll takes all that is there
    body.append(bytes);
  }
  void OnEnd(load::TransferId, const load::TransferEnd& ended, base::Instant) override {
    end = ended;
  }

  int status = 0;
  std::string body;
  bool over_cap = false;
  std::optional<load::TransferEnd> end;

 private:
  load::Transport& transport_;
};

}  // namespace

base::Result<Fetched> Fetch(load::Transport& transport, base::Clock& clock, const std::string& url,
                            base::Instant until, const std::function<bool()>& give_up,
                            const std::string& json_body) {
  BodySink sink(transport);
  load::HttpRequest request;
  request.method = json_body.empty() ? "GET" : "POST";
  if (!json_body.empty()) request.headers = {{"Content-Type", "application/json"}};
  request.body = json_body;
  request.url = url;
  UG_ASSIGN(const load::TransferId id, transport.Start(request, sink));
  Fetched fetched;
  while (!sink.end && !sink.over_cap) {
    const base::Instant now = clock.now();
    if (give_up()) {
      fetched.problem = "given up";
    } else if (now >= until) {
      fetched.problem = "no whole response in time";
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
  if (sink.over_cap) {
    fetched.problem = fmt::format("a body over {} bytes", kFetchBodyCap);
  } else if (sink.end->kind == load::TransferEnd::Kind::kComplete) {
    fetched.status = sink.status;
    fetched.body = std::move(sink.body);
  } else {
    fetched.problem = sink.end->detail;
  }
  return fetched;
}

}  // namespace upgrade_gate::probes
