#include "framework/load/driver.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <ctime>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "framework/load/shards.h"

namespace upgrade_gate::load {
namespace {

using base::Instant;
using evidence::StopReason;

constexpr std::chrono::milliseconds kStopCheckEvery{50};
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

// What the shards of one load know of each other. Thread-safe.
class Common {
 public:
  Common(const Load& load, Instant start)
      : start_(start), load_(load), failures_in_a_row_(load.failures_in_a_row) {
    if (load.consecutive_failures && failures_in_a_row_ >= *load.consecutive_failures) {
      Stop({StopReason::kGuard,
            fmt::format("{} failures in a row before this round", failures_in_a_row_)});
    }
  }

  Instant start() const { return start_; }
  bool may_send() const { return !stopped_; }
  bool ended() const { return ended_; }
  StopSignal why() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }
  int failures_in_a_row() const {
    const std::lock_guard lock(mutex_);
    return failures_in_a_row_;
  }

  // Every request that ended: the guard counts over all shards.
  void Count(const evidence::RequestRecord& record) {
    const std::lock_guard lock(mutex_);
    failures_in_a_row_ = record.accepted() ? 0 : failures_in_a_row_ + 1;
    if (!load_.consecutive_failures || failures_in_a_row_ < *load_.consecutive_failures) return;
    Stop({StopReason::kGuard,
          fmt::format("{} failures in a row, the last of them {} ({})", failures_in_a_row_,
                      evidence::Name(record.failure->kind), record.failure->detail)});
  }
  void End(StopSignal why) {
    const std::lock_guard lock(mutex_);
    // A guard that has tripped meanwhile does not hide why the load ended.
    if (!ended_) stopped_ = false;
    Stop(std::move(why));
    ended_ = true;
  }

  void ShardEnded() {
    const std::lock_guard lock(mutex_);
    ++shards_ended_;
    shard_ended_.notify_one();
  }
  // True once that many shards have ended; false after a while without.
  bool WaitFor(std::size_t shards) {
    std::unique_lock lock(mutex_);
    return shard_ended_.wait_for(lock, kStopCheckEvery, [&] { return shards_ended_ == shards; });
  }

 private:
  void Stop(StopSignal why) {
    if (stopped_) return;
    why_ = std::move(why);
    stopped_ = true;
  }

  const Instant start_;
  const Load& load_;
  mutable std::mutex mutex_;
  int failures_in_a_row_;
  StopSignal why_;
  std::atomic<bool> stopped_ = false;  // nothing more is sent
  std::atomic<bool> ended_ = false;    // nor waited for
  std::size_t shards_ended_ = 0;
  std::condition_variable shard_ended_;
};

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

class Driver;

// One place of the loop, used by one request after another.
class Slot final : public TransferSink {
 public:
  Slot(Driver& driver, const ReaderCaps& caps, std::shared_ptr<evidence::Spool> spool)
      : reader(caps, std::move(spool)), driver_(driver) {}
  void OnHead(TransferId id, const ResponseHead& head, Instant at) override;
  void OnBody(TransferId id, std::string_view bytes, const Arrival& arrival) override;
  void OnEnd(TransferId id, const TransferEnd& end, Instant at) override;

  ResponseReader reader;
  bool busy = false;
  std::size_t index = 0;  // among all requests of the load
  TransferId id = 0;
  Instant scheduled, sent;
  Instant last_read;  // by this thread: limits are about silence
  Instant last_arrival;
  std::uint64_t look = 0;  // the last that found text, and how many texts
  std::int64_t texts_in_look = 0;
  bool inexact_look = false;
  std::vector<float> gaps_ms;  // kept only where the load asks for them
  Instant last_output;

 private:
  Driver& driver_;
};

// What one shard has to say; merged by RunLoad.
struct ShardResult {
  std::vector<evidence::RequestRecord> requests;
  std::vector<evidence::RawStream> streams;
  Instant last_end;
  evidence::ClientHealth client;
  std::vector<base::Nanoseconds> lags;
  std::vector<std::pair<int, std::vector<float>>> gaps_ms;  // by request
};

// One shard: every `shards`-th request and slot, on one thread.
class Driver {
 public:
  Driver(Transport& transport, base::Clock& clock, const Load& load,
         const std::vector<PreparedRequest>& requests, Common& common, std::size_t shard,
         std::size_t shards)
      : transport_(transport),
        clock_(clock),
        load_(load),
        requests_(requests),
        common_(common),
        shard_(shard),
        shards_(shards),
        count_((requests.size() + shards - 1 - shard) / shards),
        most_(ShareOf(load.concurrency, shard, shards)) {}
  ~Driver() { CancelAll(); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // `should_stop` is empty but for the shard on the calling thread.
  base::Result<ShardResult> Run(const StopCheck& should_stop);

  // From the slots, within Poll. A flood over the cap is cut off at once, as Poll
  // may not return before it has taken all that is there.
  void OverCap(Slot& slot, Instant at) { Close(slot, EndKind::kOverCap, "", at); }
  void Read(Slot& slot, const Arrival& arrival, std::int64_t texts);
  void Ended(Slot& slot, const TransferEnd& end, Instant at);
  // Limits only move later, but for the linger that [DONE] starts.
  void DoneSeen(Instant at) { next_limit_ = std::min(next_limit_, at + load_.linger_limit); }

 private:
  std::size_t IndexOf(std::size_t own) const { return shard_ + own * shards_; }
  bool MaySend() const { return common_.may_send() && !over_ && next_ < count_; }
  base::Status StartIn(Slot& slot, Instant scheduled);
  base::Status Refill();
  base::Status RefillClosed(Instant now);
  base::Status RefillOpen(Instant now);
  Slot* FreeSlot();
  void KeepGaps(Slot& slot, std::int64_t texts);
  void Ended(Slot& slot, EndKind kind, std::string_view detail, Instant at);
  void Close(Slot& slot, EndKind kind, std::string_view detail, Instant at);
  void KeepStream(int index, evidence::RawBytes raw);
  void InFlight(int change);
  std::string Redacted(std::string text) const;
  Instant NextLimit(const Slot& slot) const;
  void EnforceLimits();
  void CancelAll();
  bool AskToStop(const StopCheck& should_stop);
  void EndWhatIsInFlight();

  Transport& transport_;
  base::Clock& clock_;
  const Load& load_;
  const std::vector<PreparedRequest>& requests_;
  Common& common_;
  const std::size_t shard_, shards_;
  const std::size_t count_;  // own requests
  const int most_;           // own slots

  std::shared_ptr<evidence::Spool> spool_;  // of this shard's thread
  ShardResult result_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::pair<Slot*, Instant>> free_;  // and since when
  int in_flight_ = 0;
  std::size_t next_ = 0;                  // of the own requests
  std::optional<std::size_t> held_back_;  // the last that was
  bool over_ = false;                     // the duration is
  Instant next_check_;
  Instant next_due_ = Instant::max();    // when something may be sent
  Instant next_limit_ = Instant::max();  // no limit of any slot is earlier
  // Closed loop: the integral of in_flight_ from when all slots were in use for as
  // long as there was something to send.
  std::optional<Instant> counted_from_;
  Instant counted_to_;
  bool counting_ = false;
  double in_flight_ns_ = 0;
};

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
  driver_.Read(*this, arrival, reader.observation().chunks - texts_before);
  if (!within_caps) return driver_.OverCap(*this, arrival.read);
  if (!done_before && reader.done_seen()) driver_.DoneSeen(last_arrival);
}

void Slot::OnEnd(TransferId, const TransferEnd& end, Instant at) {
  driver_.Ended(*this, end, at);
}

void Driver::Read(Slot& slot, const Arrival& arrival, std::int64_t texts) {
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

void Driver::KeepGaps(Slot& slot, std::int64_t texts) {
  const bool first = slot.last_output == Instant{};
  const std::chrono::duration<float, std::milli> gap = slot.last_arrival - slot.last_output;
  if (!first) slot.gaps_ms.push_back(gap.count());
  slot.gaps_ms.resize(slot.gaps_ms.size() + static_cast<std::size_t>(texts - 1));
  slot.last_output = slot.last_arrival;
}

void Driver::Ended(Slot& slot, const TransferEnd& end, Instant at) {
  if (end.new_connection) {
    ++result_.client.new_connections;
    result_.client.connect_max = std::max(result_.client.connect_max, end.connect);
  }
  result_.client.retransmits += end.retransmits;
  Ended(slot, EndKindOf(end.kind), end.detail, at);
}

std::string Driver::Redacted(std::string text) const {
  if (load_.redact.empty()) return text;
  for (std::size_t at = text.find(load_.redact); at != text.npos;
       at = text.find(load_.redact, at)) {
    text.replace(at, load_.redact.size(), load_.redact.size(), '*');
  }
  return text;
}

// Before in_flight_ changes, or counting ends.
void Driver::InFlight(int change) {
  const Instant now = clock_.now();
  if (counting_ && now > counted_to_) {
    in_flight_ns_ +=
        static_cast<double>(in_flight_) * static_cast<double>((now - counted_to_).count());
    counted_to_ = now;
  }
  in_flight_ += change;
}

void Driver::Ended(Slot& slot, EndKind kind, std::string_view detail, Instant at) {
  slot.busy = false;
  InFlight(-1);
  slot.reader.OnEnd(kind, detail, at);
  result_.last_end = std::max(result_.last_end, at);
  free_.emplace_back(&slot, at);

  const Observation& seen = slot.reader.observation();
  const PreparedRequest& request = requests_[slot.index];
  evidence::RequestRecord& record = result_.requests[slot.index / shards_];
  const auto since_start = [this](std::optional<Instant> when) {
    return when ? std::optional<base::Nanoseconds>(*when - common_.start()) : std::nullopt;
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
  common_.Count(record);
}

void Driver::KeepStream(int index, evidence::RawBytes raw) {
  evidence::RawStream& stream = result_.streams.emplace_back();
  stream.index = index;
  if (spool_ && load_.redact.empty()) {
    stream.spooled = std::make_shared<const evidence::RawBytes>(std::move(raw));
    return;
  }
  // What the spool cannot give back ends the load: Run asks it.
  stream.bytes = Redacted(raw.Read().value_or(std::string()));
}

base::Status Driver::StartIn(Slot& slot, Instant scheduled) {
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

base::Status Driver::Refill() {
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

base::Status Driver::RefillClosed(Instant now) {
  over_ = over_ || (load_.duration && now - common_.start() >= *load_.duration);
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

base::Status Driver::RefillOpen(Instant now) {
  while (MaySend()) {
    const base::Nanoseconds offset = (*load_.schedule)[IndexOf(next_)];
    over_ = load_.duration && offset >= *load_.duration;
    if (over_) break;
    const Instant due = common_.start() + offset;
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

Slot* Driver::FreeSlot() {
  if (!free_.empty()) {
    Slot* const slot = free_.back().first;
    free_.pop_back();
    return slot;
  }
  if (static_cast<int>(slots_.size()) >= most_) return nullptr;
  slots_.push_back(std::make_unique<Slot>(*this, load_.caps, spool_));
  return slots_.back().get();
}

void Driver::Close(Slot& slot, EndKind kind, std::string_view detail, Instant at) {
  if (!slot.busy) return;
  transport_.Cancel(slot.id);
  Ended(slot, kind, detail, at);
}

Instant Driver::NextLimit(const Slot& slot) const {
  // [DONE] came in time: from there on the linger limit is the only one.
  if (slot.reader.done_seen()) return *slot.reader.observation().done + load_.linger_limit;
  return std::min(slot.sent + load_.request_timeout, slot.last_read + load_.stall_limit);
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

bool Driver::AskToStop(const StopCheck& should_stop) {
  const Instant now = clock_.now();
  if (now < next_check_) return false;
  next_check_ = now + kStopCheckEvery;
  StopSignal signal = should_stop ? should_stop() : StopSignal{};
  if (signal.reason != StopReason::kNone) common_.End(std::move(signal));
  return common_.ended();
}

void Driver::EndWhatIsInFlight() {
  const Instant end = clock_.now();
  const StopSignal why = common_.why();
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

base::Result<ShardResult> Driver::Run(const StopCheck& should_stop) {
  const FineTimer fine;
  const base::Nanoseconds cpu_before = ThreadCpu();
  const Instant start = common_.start();
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

// Requests a second from the first to the last, by one of their stamps.
std::optional<double> RateOf(const std::vector<evidence::RequestRecord>& requests,
                             std::optional<base::Nanoseconds> evidence::RequestTimes::*stamp) {
  base::Nanoseconds first = base::Nanoseconds::max();
  base::Nanoseconds last = base::Nanoseconds::min();
  for (const auto& request : requests) {
    first = std::min(first, (request.times.*stamp).value_or(first));
    last = std::max(last, (request.times.*stamp).value_or(last));
  }
  if (last <= first) return std::nullopt;
  return static_cast<double>(requests.size() - 1) /
         std::chrono::duration<double>(last - first).count();
}

// At most 1 % are above it, and at least one where there are several.
base::Nanoseconds P99(std::vector<base::Nanoseconds> values) {
  if (values.empty()) return {};
  std::size_t rank = (99 * values.size() + 99) / 100;
  if (values.size() > 1) rank = std::min(rank, values.size() - 1);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

LoadResult Merge(const Load& load, const Common& common, std::vector<ShardResult> shards) {
  LoadResult result;
  evidence::ClientHealth& client = result.client;
  std::vector<base::Nanoseconds> lags;
  std::vector<std::pair<int, std::vector<float>>> gaps_ms;
  client.threads = static_cast<int>(shards.size());
  for (ShardResult& shard : shards) {
    std::move(shard.requests.begin(), shard.requests.end(), std::back_inserter(result.requests));
    std::move(shard.streams.begin(), shard.streams.end(), std::back_inserter(result.streams));
    result.duration = std::max(result.duration, shard.last_end - common.start());
    lags.insert(lags.end(), shard.lags.begin(), shard.lags.end());
    std::move(shard.gaps_ms.begin(), shard.gaps_ms.end(), std::back_inserter(gaps_ms));
    const evidence::ClientHealth& part = shard.client;
    if (part.delivered) client.delivered = client.delivered.value_or(0) + *part.delivered;
    client.held_back += part.held_back;
    client.reads += part.reads;
    client.inexact_reads += part.inexact_reads;
    client.unstamped_reads += part.unstamped_reads;
    client.cpu_share = std::max(client.cpu_share, part.cpu_share);
    client.new_connections += part.new_connections;
    client.connect_max = std::max(client.connect_max, part.connect_max);
    client.retransmits += part.retransmits;
  }
  const auto by_index = [](const auto& a, const auto& b) { return a.index < b.index; };
  std::sort(result.requests.begin(), result.requests.end(), by_index);
  std::sort(result.streams.begin(), result.streams.end(), by_index);

  std::sort(gaps_ms.begin(), gaps_ms.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [index, gaps] : gaps_ms) result.gaps_ms.push_back(std::move(gaps));

  std::vector<base::Nanoseconds> late;
  for (const auto& request : result.requests) {
    late.push_back(*request.times.sent - *request.times.scheduled);
  }
  client.send_late_p99 = P99(std::move(late));
  client.lag_p99 = P99(std::move(lags));
  client.open_loop = load.schedule.has_value();
  client.asked = load.concurrency;
  if (client.open_loop) {
    client.asked = RateOf(result.requests, &evidence::RequestTimes::scheduled).value_or(0);
    client.delivered = RateOf(result.requests, &evidence::RequestTimes::sent);
  }
  const StopSignal why = common.why();
  result.stopped = why.reason;
  result.stop_detail = why.detail;
  result.failures_in_a_row = common.failures_in_a_row();
  return result;
}

}  // namespace

base::Result<LoadResult> RunLoad(std::span<Transport* const> transports, base::Clock& clock,
                                 const Load& load, const std::vector<PreparedRequest>& requests,
                                 const StopCheck& should_stop) {
  UG_CHECK(load.concurrency >= 1 && !transports.empty());
  UG_CHECK(!load.schedule || load.schedule->size() >= requests.size());
  const std::size_t shards =
      std::min(transports.size(), static_cast<std::size_t>(load.concurrency));
  Common common(load, clock.now());
  std::vector<base::Result<ShardResult>> results(shards);
  const auto run = [&](std::size_t shard, const StopCheck& check) {
    results[shard] =
        Driver(*transports[shard], clock, load, requests, common, shard, shards).Run(check);
    // The others need not go on: nothing will have been measured.
    if (!results[shard]) common.End({StopReason::kInterrupted, results[shard].error().message});
    common.ShardEnded();
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < shards; ++i) threads.emplace_back(run, i, StopCheck());
    run(0, should_stop);
    // The slower shards are still to be stopped when the caller says so.
    while (!common.WaitFor(shards)) {
      if (StopSignal signal = should_stop ? should_stop() : StopSignal{};
          signal.reason != StopReason::kNone && !common.ended()) {
        common.End(std::move(signal));
      }
    }
  }
  std::vector<ShardResult> parts;
  for (auto& result : results) {
    if (!result) return tl::unexpected(std::move(result).error());
    parts.push_back(std::move(*result));
  }
  return Merge(load, common, std::move(parts));
}

base::Result<LoadResult> RunLoad(Transport& transport, base::Clock& clock, const Load& load,
                                 const std::vector<PreparedRequest>& requests,
                                 const StopCheck& should_stop) {
  Transport* const one = &transport;
  return RunLoad(std::span(&one, 1), clock, load, requests, should_stop);
}

}  // namespace upgrade_gate::load
