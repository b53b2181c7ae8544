#include "framework/load/closed_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace upgrade_gate::load {
namespace {

using base::Instant;
using evidence::StopReason;

constexpr std::chrono::milliseconds kStopCheckEvery{50};

EndKind EndKindOf(TransferEnd::Kind kind) {
  switch (kind) {
    case TransferEnd::Kind::kComplete:
      return EndKind::kComplete;
    case TransferEnd::Kind::kConnectFailed:
      return EndKind::kConnectFailed;
    case TransferEnd::Kind::kOverCap:
      return EndKind::kOverCap;
    case TransferEnd::Kind::kBroken:
      break;
  }
  return EndKind::kBroken;
}

class Driver;

// One place of the loop, used by one request after another.
class Slot final : public TransferSink {
 public:
  Slot(Driver& driver, const ClosedLoop& load) : reader(load.caps, load.spool), driver_(driver) {}
  void OnHead(TransferId id, const ResponseHead& head, Instant at) override;
  void OnBody(TransferId id, std::string_view bytes, Instant at) override;
  void OnEnd(TransferId id, const TransferEnd& end, Instant at) override;

  ResponseReader reader;
  bool busy = false;
  std::size_t index = 0;
  TransferId id = 0;
  Instant scheduled, sent, last_byte;

 private:
  Driver& driver_;
};

class Driver {
 public:
  Driver(Transport& transport, base::Clock& clock, const ClosedLoop& load,
         const std::vector<PreparedRequest>& requests, const StopCheck& should_stop)
      : transport_(transport),
        clock_(clock),
        load_(load),
        requests_(requests),
        should_stop_(should_stop) {}
  ~Driver() { CancelAll(); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  base::Result<LoadResult> Run();

  // From the slots, within Poll. A flood over the cap is cut off at once, as Poll
  // may not return before it has taken all that is there.
  void OverCap(Slot& slot, Instant at) { Close(slot, EndKind::kOverCap, "", at); }
  void NewConnection() { ++result_.new_connections; }
  void Ended(Slot& slot, EndKind kind, std::string_view detail, Instant at);
  // Limits only move later, but for the linger that [DONE] starts.
  void DoneSeen(Instant at) { next_limit_ = std::min(next_limit_, at + load_.linger_limit); }

 private:
  bool MaySend() const { return result_.stopped == StopReason::kNone && next_ < requests_.size(); }
  base::Status StartIn(Slot& slot, Instant scheduled);
  base::Status Refill();
  void Close(Slot& slot, EndKind kind, std::string_view detail, Instant at);
  Instant NextLimit(const Slot& slot) const;
  void EnforceLimits();
  void CancelAll();
  void KeepStream(int index, evidence::RawBytes raw);
  void Stop(StopReason reason, std::string detail);
  bool AskToStop();

  Transport& transport_;
  base::Clock& clock_;
  const ClosedLoop& load_;
  const std::vector<PreparedRequest>& requests_;
  const StopCheck& should_stop_;

  LoadResult result_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::pair<Slot*, Instant>> free_;  // and since when, in that order
  int in_flight_ = 0;
  std::size_t next_ = 0;  // the next request's index
  Instant start_, last_end_, next_check_;
  Instant next_limit_ = Instant::max();  // no limit of any slot is earlier
};

void Slot::OnHead(TransferId, const ResponseHead& head, Instant at) {
  last_byte = at;
  reader.OnHeaders(head.status, head.content_type, head.retry_after);
}

void Slot::OnBody(TransferId, std::string_view bytes, Instant at) {
  last_byte = at;
  const bool done_before = reader.done_seen();
  if (!reader.OnBody(bytes, at)) return driver_.OverCap(*this, at);
  if (!done_before && reader.done_seen()) driver_.DoneSeen(at);
}

void Slot::OnEnd(TransferId, const TransferEnd& end, Instant at) {
  if (end.new_connection) driver_.NewConnection();
  driver_.Ended(*this, EndKindOf(end.kind), end.detail, at);
}

void Driver::Ended(Slot& slot, EndKind kind, std::string_view detail, Instant at) {
  slot.busy = false;
  --in_flight_;
  slot.reader.OnEnd(kind, detail, at);
  last_end_ = std::max(last_end_, at);
  free_.emplace_back(&slot, at);

  const Observation& seen = slot.reader.observation();
  const PreparedRequest& request = requests_[slot.index];
  evidence::RequestRecord& record = result_.requests[slot.index];
  const auto since_start = [this](std::optional<Instant> when) {
    return when ? std::optional<base::Nanoseconds>(*when - start_) : std::nullopt;
  };
  record.index = static_cast<int>(slot.index);
  record.body_sha256 = request.body_sha256;
  record.prompt_sha256 = request.prompt_sha256;
  record.input_tokens = request.expected.input_tokens;
  record.output_tokens = request.expected.output_tokens;
  record.streamed = request.expected.form.stream;
  record.empty_allowed = request.expected.allow_empty_output;
  record.times = {.scheduled = since_start(slot.scheduled),
                  .sent = since_start(slot.sent),
                  .first_byte = since_start(seen.first_byte),
                  .first_token = since_start(seen.first_token),
                  .first_text = since_start(seen.first_text),
                  .last_token = since_start(seen.last_token),
                  .done = since_start(seen.done),
                  .closed = since_start(seen.closed)};
  record.http_status = seen.http_status;
  record.usage = seen.usage;
  record.finish_reason = seen.finish_reason;
  record.text_bytes = seen.text_bytes;
  record.chunks = seen.chunks;
  record.reasoning_bytes = seen.reasoning_bytes;
  record.reasoning_field = seen.reasoning_field;
  record.tool_calls = seen.tool_calls;
  Outcome outcome = Judge(request.expected, seen);
  record.failure = std::move(outcome.failure);
  record.notes = std::move(outcome.notes);

  if (!record.accepted() || load_.keep_streams == plan::KeepStreams::kAll) {
    KeepStream(record.index, slot.reader.TakeRaw());
  }
  if (record.accepted()) {
    result_.failures_in_a_row = 0;
    return;
  }
  ++result_.failures_in_a_row;
  if (load_.consecutive_failures && result_.failures_in_a_row >= *load_.consecutive_failures) {
    Stop(StopReason::kGuard,
         fmt::format("{} failures in a row, the last of them {} ({})", result_.failures_in_a_row,
                     evidence::Name(record.failure->kind), record.failure->detail));
  }
}

void Driver::KeepStream(int index, evidence::RawBytes raw) {
  evidence::RawStream& stream = result_.streams.emplace_back();
  stream.index = index;
  if (load_.spool) {
    stream.spooled = std::make_shared<const evidence::RawBytes>(std::move(raw));
  } else {
    stream.bytes = raw.Read().value();  // memory cannot fail to be read
  }
}

void Driver::Stop(StopReason reason, std::string detail) {
  if (result_.stopped != StopReason::kNone) return;
  result_.stopped = reason;
  result_.stop_detail = std::move(detail);
}

base::Status Driver::StartIn(Slot& slot, Instant scheduled) {
  slot.index = next_++;
  slot.reader.Reset(requests_[slot.index].expected.form);
  slot.scheduled = scheduled;
  slot.sent = slot.last_byte = clock_.now();
  const ResponseForm& form = requests_[slot.index].expected.form;
  HttpRequest request;
  request.url = load_.url;
  request.headers = {{"Content-Type", "application/json"},
                     {"Accept", form.stream ? "text/event-stream" : "application/json"}};
  request.body = requests_[slot.index].body;
  UG_ASSIGN(slot.id, transport_.Start(request, slot));
  slot.busy = true;
  ++in_flight_;
  result_.requests.emplace_back();
  next_limit_ = std::min(next_limit_, NextLimit(slot));
  return {};
}

base::Status Driver::Refill() {
  for (const auto& [slot, since] : free_) {
    if (!MaySend()) break;
    UG_TRY(StartIn(*slot, since));
  }
  free_.clear();
  return {};
}

void Driver::Close(Slot& slot, EndKind kind, std::string_view detail, Instant at) {
  if (!slot.busy) return;
  transport_.Cancel(slot.id);
  Ended(slot, kind, detail, at);
}

Instant Driver::NextLimit(const Slot& slot) const {
  // [DONE] came in time: from there on the linger limit is the only one.
  if (slot.reader.done_seen()) return *slot.reader.observation().done + load_.linger_limit;
  return std::min(slot.sent + load_.request_timeout, slot.last_byte + load_.stall_limit);
}

void Driver::EnforceLimits() {
  const Instant now = clock_.now();
  if (now < next_limit_) return;
  next_limit_ = Instant::max();
  for (const auto& slot : slots_) {
    if (!slot->busy) continue;
    if (const Instant limit = NextLimit(*slot); now < limit) {
      next_limit_ = std::min(next_limit_, limit);
    } else if (slot->reader.done_seen()) {
      Close(*slot, EndKind::kLingered,
            fmt::format("closed after {} ms", load_.linger_limit.count()), now);
    } else if (now >= slot->sent + load_.request_timeout) {
      Close(*slot, EndKind::kDeadline,
            fmt::format("the limit is {} ms", load_.request_timeout.count()), now);
    } else {
      Close(*slot, EndKind::kStalled,
            fmt::format("nothing came for {} ms", load_.stall_limit.count()), now);
    }
  }
}

void Driver::CancelAll() {
  for (const auto& slot : slots_) {
    if (slot->busy) transport_.Cancel(slot->id);
    slot->busy = false;
  }
}

bool Driver::AskToStop() {
  const Instant now = clock_.now();
  if (now < next_check_) return false;
  next_check_ = now + kStopCheckEvery;
  StopSignal signal = should_stop_ ? should_stop_() : StopSignal{};
  if (signal.reason == StopReason::kNone) return false;
  // A guard that has tripped meanwhile does not hide why the load ended.
  result_.stopped = StopReason::kNone;
  Stop(signal.reason, signal.detail);
  return true;
}

base::Result<LoadResult> Driver::Run() {
  UG_CHECK(load_.concurrency >= 1);
  start_ = last_end_ = next_check_ = clock_.now();
  result_.failures_in_a_row = load_.failures_in_a_row;
  result_.requests.reserve(requests_.size());
  if (load_.consecutive_failures && load_.failures_in_a_row >= *load_.consecutive_failures) {
    Stop(StopReason::kGuard,
         fmt::format("{} failures in a row before this round", load_.failures_in_a_row));
  }
  const std::size_t count = std::min(static_cast<std::size_t>(load_.concurrency), requests_.size());
  for (std::size_t i = 0; i < count; ++i) {
    slots_.push_back(std::make_unique<Slot>(*this, load_));
    free_.emplace_back(slots_.back().get(), start_);
  }
  while (in_flight_ > 0 || MaySend()) {
    if (AskToStop()) break;
    UG_TRY(Refill());
    UG_TRY(transport_.Poll(std::min(next_check_, next_limit_)));
    EnforceLimits();
    if (load_.spool) UG_TRY(load_.spool->status());
  }

  const Instant end = clock_.now();
  std::vector<std::size_t> unrecorded;
  for (const auto& slot : slots_) {
    if (!slot->busy) continue;
    if (result_.stopped == StopReason::kInterrupted) {
      unrecorded.push_back(slot->index);
    } else {
      Close(*slot, EndKind::kCancelled, result_.stop_detail, end);
    }
  }
  CancelAll();
  std::sort(unrecorded.rbegin(), unrecorded.rend());
  for (const std::size_t index : unrecorded) {
    result_.requests.erase(result_.requests.begin() + static_cast<std::ptrdiff_t>(index));
  }
  if (!unrecorded.empty()) last_end_ = end;
  result_.duration = last_end_ - start_;
  std::sort(result_.streams.begin(), result_.streams.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  return std::move(result_);
}

}  // namespace

base::Result<LoadResult> RunClosedLoop(Transport& transport, base::Clock& clock,
                                       const ClosedLoop& load,
                                       const std::vector<PreparedRequest>& requests,
                                       const StopCheck& should_stop) {
  return Driver(transport, clock, load, requests, should_stop).Run();
}

}  // namespace upgrade_gate::load
