// One thread's share of a load, over a transport of its own. Requests and places of the
// loop are dealt out to the shards in turn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/result.h"
#include "framework/evidence/raw_bytes.h"
#include "framework/evidence/records.h"
#include "framework/load/completion_request.h"
#include "framework/load/driver.h"
#include "framework/load/load_control.h"
#include "framework/load/response_reader.h"
#include "framework/load/shards.h"
#include "framework/load/transport.h"

namespace upgrade_gate::load {

// What one shard has to say; merged by RunLoad.
struct ShardResult {
  std::vector<evidence::RequestRecord> requests;
  std::vector<evidence::RawStream> streams;
  base::Instant last_end;
  evidence::ClientHealth client;
  std::vector<base::Nanoseconds> lags;
  std::vector<std::pair<int, std::vector<float>>> gaps_ms;  // by request
};

class Shard;

// One place of the loop, used by one request after another.
class Slot final : public TransferSink {
 public:
  Slot(Shard& shard, const ReaderCaps& caps, std::shared_ptr<evidence::Spool> spool)
      : reader(caps, std::move(spool)), shard_(shard) {}
  void OnHead(TransferId id, const ResponseHead& head, base::Instant at) override;
  void OnBody(TransferId id, std::string_view bytes, const Arrival& arrival) override;
  void OnEnd(TransferId id, const TransferEnd& end, base::Instant at) override;

  ResponseReader reader;
  bool busy = false;
  std::size_t index = 0;  // among all requests of the load
  TransferId id = 0;
  base::Instant scheduled, sent;
  base::Instant last_read;  // by this thread: limits are about silence
  base::Instant last_arrival;
  std::uint64_t look = 0;  // the last that found text, and how many texts
  std::int64_t texts_in_look = 0;
  bool inexact_look = false;
  std::vector<float> gaps_ms;  // kept only where the load asks for them
  base::Instant last_output;

 private:
  Shard& shard_;
};

class Shard {
 public:
  Shard(Transport& transport, base::Clock& clock, const Load& load,
        const std::vector<PreparedRequest>& requests, LoadControl& control, std::size_t number,
        std::size_t shards)
      : transport_(transport),
        clock_(clock),
        load_(load),
        requests_(requests),
        control_(control),
        number_(number),
        shards_(shards),
        count_((requests.size() + shards - 1 - number) / shards),
        most_(ShareOf(load.concurrency, number, shards)) {}
  ~Shard() { CancelAll(); }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // `should_stop` is empty but for the shard on the calling thread.
  base::Result<ShardResult> Run(const StopCheck& should_stop);

  // From the slots, within Poll. A flood over the cap is cut off at once, as Poll
  // may not return before it has taken all that is there.
  void OverCap(Slot& slot, base::Instant at) { Close(slot, EndKind::kOverCap, "", at); }
  void Read(Slot& slot, const Arrival& arrival, std::int64_t texts);
  void Ended(Slot& slot, const TransferEnd& end, base::Instant at);
  // Limits only move later, but for the linger that [DONE] starts.
  void DoneSeen(base::Instant at) { next_limit_ = std::min(next_limit_, at + load_.linger_limit); }

 private:
  std::size_t IndexOf(std::size_t own) const { return number_ + own * shards_; }
  bool MaySend() const { return control_.may_send() && !over_ && next_ < count_; }
  base::Status StartIn(Slot& slot, base::Instant scheduled);
  base::Status Refill();
  base::Status RefillClosed(base::Instant now);
  base::Status RefillOpen(base::Instant now);
  Slot* FreeSlot();
  void KeepGaps(Slot& slot, std::int64_t texts);
  void Ended(Slot& slot, EndKind kind, std::string_view detail, base::Instant at);
  void Close(Slot& slot, EndKind kind, std::string_view detail, base::Instant at);
  void KeepStream(int index, evidence::RawBytes raw);
  void InFlight(int change);
  std::string Redacted(std::string text) const;
  base::Instant NextLimit(const Slot& slot) const;
  void EnforceLimits();
  void CancelAll();
  bool AskToStop(const StopCheck& should_stop);
  void EndWhatIsInFlight();

  Transport& transport_;
  base::Clock& clock_;
  const Load& load_;
  const std::vector<PreparedRequest>& requests_;
  LoadControl& control_;
  const std::size_t number_, shards_;
  const std::size_t count_;  // own requests
  const int most_;           // own slots

  std::shared_ptr<evidence::Spool> spool_;  // of this shard's thread
  ShardResult result_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::pair<Slot*, base::Instant>> free_;  // and since when
  int in_flight_ = 0;
  std::size_t next_ = 0;                  // of the own requests
  std::optional<std::size_t> held_back_;  // the last that was
  bool over_ = false;                     // the duration is
  base::Instant next_check_;
  base::Instant next_due_ = base::Instant::max();    // when something may be sent
  base::Instant next_limit_ = base::Instant::max();  // no limit of any slot is earlier
  // Closed loop: the integral of in_flight_ from when all slots were in use for as
  // long as there was something to send.
  std::optional<base::Instant> counted_from_;
  base::Instant counted_to_;
  bool counting_ = false;
  double in_flight_ns_ = 0;
};

}  // namespace upgrade_gate::load
