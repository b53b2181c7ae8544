// A Transport that plays scripts on a ManualClock: exact times, no network.
//
// Each started request is answered by the next script; Poll moves the clock to
// the next moment of any script and delivers what is due then.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/load/transport.h"

namespace upgrade_gate::testing {

// What the server does, each step at a time after the request was started.
struct Script {
  struct Step {
    std::chrono::nanoseconds after;
    enum class Kind { kHead, kBody, kEnd } kind;
    load::ResponseHead head;
    std::string body;
    load::TransferEnd end;
    std::chrono::nanoseconds lag{};  // of a body: how much later it is read than it arrived
  };
  std::vector<Step> steps;

  Script& Head(std::chrono::nanoseconds after, int status = 200,
               std::string content_type = "text/event-stream") {
    steps.push_back({after, Step::Kind::kHead, {status, std::move(content_type), ""}, "", {}, {}});
    return *this;
  }
  Script& Body(std::chrono::nanoseconds after, std::string bytes,
               std::chrono::nanoseconds lag = {}) {
    steps.push_back({after, Step::Kind::kBody, {}, std::move(bytes), {}, lag});
    return *this;
  }
  Script& End(std::chrono::nanoseconds after, load::TransferEnd end = {}) {
    steps.push_back({after, Step::Kind::kEnd, {}, "", std::move(end), {}});
    return *this;
  }
};

class FakeTransport final : public load::Transport {
 public:
  struct Started {
    base::Instant at;
    std::string method, url, body;
  };
  using Answer = std::function<Script(const Started&)>;

  explicit FakeTransport(base::ManualClock& clock) : clock_(clock) {}

  // The scripts of the requests to come, in order; when they have run out,
  // `answer` is asked, and without one Start fails.
  std::deque<Script> scripts;
  Answer answer;
  bool stamped = true;     // arrivals are the kernel's
  std::string poll_error;  // not empty: the next Poll fails with it

  std::vector<Started> started;
  std::vector<load::TransferId> cancelled;
  int most_in_flight = 0;

  base::Result<load::TransferId> Start(const load::HttpRequest& request,
                                       load::TransferSink& sink) override {
    UG_CHECK(!delivering_);
    started.push_back({clock_.now(), request.method, request.url, std::string(request.body)});
    if (scripts.empty() && !answer) return base::InfrastructureError("no script left");
    Transfer transfer{&sink, {}, clock_.now()};
    if (scripts.empty()) {
      transfer.script = answer(started.back());
    } else {
      transfer.script = std::move(scripts.front());
      scripts.pop_front();
    }
    transfers_[++last_id_] = std::move(transfer);
    most_in_flight = std::max(most_in_flight, static_cast<int>(transfers_.size()));
    return last_id_;
  }

  void Cancel(load::TransferId id) override {
    cancelled.push_back(id);
    transfers_.erase(id);
  }

  base::Status Poll(base::Instant until) override {
    if (!poll_error.empty()) return base::InfrastructureError(std::exchange(poll_error, ""));
    base::Instant next = base::Instant::max();
    for (const auto& [id, transfer] : transfers_) next = std::min(next, Due(transfer));
    clock_.SleepUntil(std::min(next, until));
    if (next > until) return {};
    delivering_ = true;
    std::vector<load::TransferId> ids;
    for (const auto& [id, transfer] : transfers_) ids.push_back(id);
    for (const load::TransferId id : ids) Deliver(id);
    delivering_ = false;
    return {};
  }

  int in_flight() const { return static_cast<int>(transfers_.size()); }

 private:
  struct Transfer {
    load::TransferSink* sink = nullptr;
    Script script;
    base::Instant start;
    std::size_t next = 0;
  };

  static base::Instant Due(const Transfer& transfer) {
    if (transfer.next == transfer.script.steps.size()) return base::Instant::max();
    return transfer.start + transfer.script.steps[transfer.next].after;
  }

  void Deliver(load::TransferId id) {
    const base::Instant now = clock_.now();
    ++look_;
    for (auto found = transfers_.find(id); found != transfers_.end() && Due(found->second) <= now;
         found = transfers_.find(id)) {
      Transfer& transfer = found->second;
      load::TransferSink& sink = *transfer.sink;
      const Script::Step step = transfer.script.steps[transfer.next++];
      switch (step.kind) {
        case Script::Step::Kind::kHead:
          sink.OnHead(id, step.head, now);
          break;
        case Script::Step::Kind::kBody:
          sink.OnBody(id, step.body,
                      {.at = now - step.lag, .read = now, .stamped = stamped, .look = look_});
          break;
        case Script::Step::Kind::kEnd:
          transfers_.erase(id);
          sink.OnEnd(id, step.end, now);
          break;
      }
    }
  }

  base::ManualClock& clock_;
  std::map<load::TransferId, Transfer> transfers_;
  load::TransferId last_id_ = 0;
  std::uint64_t look_ = 0;
  bool delivering_ = false;
};

}  // namespace upgrade_gate::testing
