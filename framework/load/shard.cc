#include "framework/load/shard.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <ctime>
#include <iterator>

namespace upgrade_gate::load {
namespace {

using base::Instant;
using evidence::StopReason;

// The kernel merges what waits on a socket and keeps one stamp for it: of the
// first event where they came apart, of the last where they came within fractions
// of a millisecond (Linux 6.18, loopback). So of several texts in one read the
// first is stamped well and the others are off by as much as the read is late.
// Tokens of a real model are further apart than this; a simulated server's, many
// of which come in a millisecond, do not need to be told apart.
constexpr std::chrono::milliseconds kStampTolerance{5};

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

// A sleep ends up to 50 µs late by default. Set back at the end: processes that
// this thread starts inherit it, and a server under test must not.
class FineTimer {
 public:
  FineTimer() : before_(prctl(PR_GET_TIMERSLACK)) { prctl(PR_SET_TIMERSLACK, 1UL); }
  ~FineTimer() {
    if (before_ > 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(before_));
  }
  FineTimer(const FineTimer&) = delete;
  FineTimer& operator=(const FineTimer&) = delete;

 private:
  int before_;
};

base::Nanoseconds ThreadCpu() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + base::Nanoseconds(used.tv_nsec);
}

}  // namespace

void Slot::OnHead(TransferId, const ResponseHead& head, Instant at) {
  last_read = std::max(last_read, at);
  reader.OnHeaders(head.status, head.content_type, head.retry_after);
}

void Slot::OnBody(TransferId, std::string_view bytes, const Arrival& arrival) {
  last_read = arrival.read;
  last_arrival = std::max(last_arrival, arrival.at);
  const bool done_before = reader.done_seen();
  const std::int64_t texts_before = reader.observation().chunks;
  const bool within_caps = reader.OnBody(bytes, last_arrival);
  shard_.Read(*this, arrival, reader.observation().chunks - texts_before);
  if (!within_caps) return shard_.OverCap(*this, arrival.read);
  if (!done_before && reader.done_seen()) shard_.DoneSeen(last_arrival);
}

void Slot::OnEnd(TransferId, const TransferEnd& end, Instant at) {
  shard_.Ended(*this, end, at);
}

void Shard::Read(Slot& slot, const Arrival& arrival, std::int64_t texts) {
  if (texts == 0) return;
  if (load_.progress != nullptr) load_.progress->chunks += texts;
  if (load_.keep_gaps) KeepGaps(slot, texts);
  if (slot.look != arrival.look) {
    slot.look = arrival.look;
    slot.texts_in_look = 0;
    slot.inexact_look = false;
    ++result_.client.reads;
    if (arrival.stamped) {
      result_.lags.push_back(arrival.read - arrival.at);
    } else {
      ++result_.client.unstamped_reads;
    }
  }
  slot.texts_in_look += texts;
  const bool late = !arrival.stamped || arrival.read - arrival.at > kStampTolerance;
  if (slot.texts_in_look > 1 && late && !slot.inexact_look) {
    slot.inexact_look = true;
    ++result_.client.inexact_reads;
  }
}

void Shard::KeepGaps(Slot& slot, std::int64_t texts) {
  const bool first = slot.last_output == Instant{};
  const std::chrono::duration<float, std::milli> gap = slot.last_arrival - slot.last_output;
  if (!first) slot.gaps_ms.push_back(gap.count());
  slot.gaps_ms.resize(slot.gaps_ms.size() + static_cast<std::size_t>(texts - 1));
  slot.last_output = slot.last_arrival;
}

void Shard::Ended(Slot& slot, const TransferEnd& end, Instant at) {
  if (end.new_connection) {
    ++result_.client.new_connections;
    result_.client.connect_max = std::max(result_.client.connect_max, end.connect);
  }
  result_.client.retransmits += end.retransmits;
  Ended(slot, EndKindOf(end.kind), end.detail, at);
}

std::string Shard::Redacted(std::string text) const {
  if (load_.redact.empty()) return text;
  for (std::size_t at = text.find(load_.redact); at != text.npos;
       at = text.find(load_.redact, at)) {
    text.replace(at, load_.redact.size(), load_.redact.size(), '*');
  }
  return text;
}

// Before in_flight_ changes, or counting ends.
void Shard::InFlight(int change) {
  const Instant now = clock_.now();
  if (counting_ && now > counted_to_) {
    in_flight_ns_ +=
        static_cast<double>(in_flight_) * static_cast<double>((now - counted_to_).count());
    counted_to_ = now;
  }
  in_flight_ += change;
}

void Shard::Ended(Slot& slot, EndKind kind, std::string_view detail, Instant at) {
  slot.busy = false;
  InFlight(-1);
  slot.reader.OnEnd(kind, detail, at);
  result_.last_end = std::max(result_.last_end, at);
  free_.emplace_back(&slot, at);

  const Observation& seen = slot.reader.observation();
  const PreparedRequest& request = requests_[slot.index];
  evidence::RequestRecord& record = result_.requests[slot.index / shards_];
  const auto since_start = [this](std::optional<Instant> when) {
    return when ? std::optional<base::Nanoseconds>(*when - control_.start()) : std::nullopt;
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

  if (!record.accepted()) record.failure->detail = Redacted(std::move(record.failure->detail));
  for (std::string& note : record.notes) note = Redacted(std::move(note));
  if (!record.accepted() || load_.keep_streams == plan::KeepStreams::kAll) {
    KeepStream(record.index, slot.reader.TakeRaw());
  }
  if (load_.keep_gaps) result_.gaps_ms.emplace_back(record.index, std::move(slot.gaps_ms));
  if (load_.progress != nullptr) {
    ++load_.progress->ended;
    if (!record.accepted()) ++load_.progress->failed;
  }
  control_.Count(record);
}

void Shard::KeepStream(int index, evidence::RawBytes raw) {
  evidence::RawStream& stream = result_.streams.emplace_back();
  stream.index = index;
  if (spool_ && load_.redact.empty()) {
    stream.spooled = std::make_shared<const evidence::RawBytes>(std::move(raw));
    return;
  }
  // What the spool cannot give back ends the load: Run asks it.
  stream.bytes = Redacted(raw.Read().value_or(std::string()));
}

base::Status Shard::StartIn(Slot& slot, Instant scheduled) {
  slot.index = IndexOf(next_++);
  const ResponseForm& form = requests_[slot.index].expected.form;
  slot.reader.Reset(form);
  slot.scheduled = scheduled;
  slot.gaps_ms.clear();
  slot.last_output = {};
  slot.sent = slot.last_read = slot.last_arrival = clock_.now();
  HttpRequest request;
  request.url = load_.url;
  request.headers = {{"Content-Type", "application/json"},
                     {"Accept", form.stream ? "text/event-stream" : "application/json"}};
  request.body = requests_[slot.index].body;
  UG_ASSIGN(slot.id, transport_.Start(request, slot));
  slot.busy = true;
  InFlight(+1);
  if (load_.progress != nullptr) ++load_.progress->sent;
  result_.requests.emplace_back();
  next_limit_ = std::min(next_limit_, NextLimit(slot));
  return {};
}

base::Status Shard::Refill() {
  next_due_ = Instant::max();
  const Instant now = clock_.now();
  UG_TRY(load_.schedule ? RefillOpen(now) : RefillClosed(now));
  if (!load_.schedule && !counted_from_ && free_.empty() && MaySend()) {
    counted_from_ = counted_to_ = clock_.now();
    counting_ = true;
  }
  if (counting_ && !MaySend()) {
    InFlight(0);
    counting_ = false;
  }
  return {};
}

base::Status Shard::RefillClosed(Instant now) {
  over_ = over_ || (load_.duration && now - control_.start() >= *load_.duration);
  std::vector<std::pair<Slot*, Instant>> later;
  for (const auto& [slot, since] : free_) {
    if (since > now) {  // of the ramp
      later.emplace_back(slot, since);
      next_due_ = std::min(next_due_, since);
    } else if (MaySend()) {
      UG_TRY(StartIn(*slot, since));
    }
  }
  free_ = std::move(later);
  return {};
}

base::Status Shard::RefillOpen(Instant now) {
  while (MaySend()) {
    const base::Nanoseconds offset = (*load_.schedule)[IndexOf(next_)];
    over_ = load_.duration && offset >= *load_.duration;
    if (over_) break;
    const Instant due = control_.start() + offset;
    if (due > now) {
      next_due_ = due;
      break;
    }
    Slot* const slot = FreeSlot();
    if (slot == nullptr) {  // sent as soon as one is free
      if (held_back_ != next_) ++result_.client.held_back;
      held_back_ = next_;
      break;
    }
    UG_TRY(StartIn(*slot, due));
  }
  return {};
}

Slot* Shard::FreeSlot() {
  if (!free_.empty()) {
    Slot* const slot = free_.back().first;
    free_.pop_back();
    return slot;
  }
  if (static_cast<int>(slots_.size()) >= most_) return nullptr;
  slots_.push_back(std::make_unique<Slot>(*this, load_.caps, spool_));
  return slots_.back().get();
}

void Shard::Close(Slot& slot, EndKind kind, std::string_view detail, Instant at) {
  if (!slot.busy) return;
  transport_.Cancel(slot.id);
  Ended(slot, kind, detail, at);
}

Instant Shard::NextLimit(const Slot& slot) const {
  // [DONE] came in time: from there on the linger limit is the only one.
  if (slot.reader.done_seen()) return *slot.reader.observation().done + load_.linger_limit;
  return std::min(slot.sent + load_.request_timeout, slot.last_read + load_.stall_limit);
}

void Shard::EnforceLimits() {
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

void Shard::CancelAll() {
  for (const auto& slot : slots_) {
    if (slot->busy) transport_.Cancel(slot->id);
    slot->busy = false;
  }
}

bool Shard::AskToStop(const StopCheck& should_stop) {
  const Instant now = clock_.now();
  if (now < next_check_) return false;
  next_check_ = now + kStopCheckEvery;
  StopSignal signal = should_stop ? should_stop() : StopSignal{};
  if (signal.reason != StopReason::kNone) control_.End(std::move(signal));
  return control_.ended();
}

void Shard::EndWhatIsInFlight() {
  const Instant end = clock_.now();
  const StopSignal why = control_.why();
  std::vector<std::size_t> unrecorded;
  for (const auto& slot : slots_) {
    if (!slot->busy) continue;
    if (why.reason == StopReason::kInterrupted) {
      unrecorded.push_back(slot->index / shards_);
    } else {
      Close(*slot, EndKind::kCancelled, why.detail, end);
    }
  }
  CancelAll();
  std::sort(unrecorded.rbegin(), unrecorded.rend());
  for (const std::size_t index : unrecorded) {
    result_.requests.erase(result_.requests.begin() + static_cast<std::ptrdiff_t>(index));
  }
  if (!unrecorded.empty()) result_.last_end = end;
}

base::Result<ShardResult> Shard::Run(const StopCheck& should_stop) {
  const FineTimer fine;
  const base::Nanoseconds cpu_before = ThreadCpu();
  const Instant start = control_.start();
  result_.last_end = next_check_ = start;
  result_.requests.reserve(count_);
  if (load_.spool_folder) {
    UG_ASSIGN(spool_, evidence::Spool::Create(*load_.spool_folder));
  }
  if (!load_.schedule) {
    const int slots = std::min(most_, static_cast<int>(count_));
    for (int i = 0; i < slots; ++i) {
      slots_.push_back(std::make_unique<Slot>(*this, load_.caps, spool_));
      const auto place = static_cast<int>(IndexOf(static_cast<std::size_t>(i)));
      free_.emplace_back(slots_.back().get(), start + load_.ramp / load_.concurrency * place);
    }
  }
  while (in_flight_ > 0 || MaySend()) {
    if (AskToStop(should_stop)) break;
    UG_TRY(Refill());
    UG_TRY(transport_.Poll(std::min({next_check_, next_limit_, next_due_})));
    EnforceLimits();
    if (spool_) UG_TRY(spool_->status());
  }
  EndWhatIsInFlight();

  const Instant now = clock_.now();
  const auto share = [](double part, base::Nanoseconds whole) {
    return whole.count() > 0 ? part / static_cast<double>(whole.count()) : 0;
  };
  if (counted_from_ && counted_to_ > *counted_from_) {
    result_.client.delivered = share(in_flight_ns_, counted_to_ - *counted_from_);
  }
  result_.client.cpu_share =
      share(static_cast<double>((ThreadCpu() - cpu_before).count()), now - start);
  return std::move(result_);
}

}  // namespace upgrade_gate::load
