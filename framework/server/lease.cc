#include "framework/server/lease.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "framework/base/file.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/server/forked_child.h"

namespace upgrade_gate::server {
namespace {

using base::Json;
using std::chrono::seconds;

constexpr std::int64_t kMostSeconds = 366LL * 24 * 3600;
// A watcher that misses so many renewals could be reading slowly.
constexpr int kLeastRenewalsInGrace = 3;
constexpr int kOverdueRenewals = 2;

base::Result<seconds> Seconds(const Json& json, const char* key) {
  UG_ASSIGN(const std::int64_t count, base::IntMember(json, key));
  if (count < 0 || count > kMostSeconds) {
    return base::InfrastructureError(std::string("\"") + key + "\" is out of range");
  }
  return seconds(count);
}

}  // namespace

std::string FormatLease(const Lease& lease) {
  Json json = {{"schema", 1},
               {"run_id", lease.run_id},
               {"counter", lease.counter},
               {"interval_s", lease.interval.count()},
               {"over", lease.over}};
  if (lease.ends_in) json["ends_in_s"] = lease.ends_in->count();
  return base::WriteJson(json);
}

base::Result<Lease> ParseLease(std::string_view bytes) {
  if (bytes.size() > kMostLeaseBytes) {
    return base::InfrastructureError("is longer than " + std::to_string(kMostLeaseBytes) +
                                     " bytes");
  }
  const auto json = base::ParseJson(bytes);
  if (!json) return base::InfrastructureError("is not JSON: " + json.error().message);
  if (!json->is_object()) return base::InfrastructureError("is not a JSON object");
  UG_ASSIGN(const std::int64_t schema, base::IntMember(*json, "schema"));
  if (schema != 1) {
    return base::InfrastructureError("has schema " + std::to_string(schema) +
                                     ", and 1 is known: use the runner's own version");
  }
  Lease lease;
  UG_ASSIGN(lease.run_id, base::StringMember(*json, "run_id"));
  if (!base::IsPlainName(lease.run_id)) {
    return base::InfrastructureError("\"run_id\" is not a plain name");
  }
  UG_ASSIGN(lease.counter, base::IntMember(*json, "counter"));
  UG_ASSIGN(lease.interval, Seconds(*json, "interval_s"));
  UG_ASSIGN(lease.over, base::BoolMember(*json, "over"));
  if (json->contains("ends_in_s")) {
    UG_ASSIGN(lease.ends_in, Seconds(*json, "ends_in_s"));
  }
  return lease;
}

base::Result<std::unique_ptr<LeaseKeeper>> LeaseKeeper::Start(Options options) {
  std::unique_ptr<LeaseKeeper> keeper(new LeaseKeeper(std::move(options)));
  UG_TRY(keeper->Renew(false));
  try {
    const SignalsBlocked blocked;  // handlers belong to the runner's own threads
    keeper->thread_ = std::thread([raw = keeper.get()] { raw->Live(); });
  } catch (const std::system_error& error) {
    return base::InfrastructureError(std::string("cannot start a thread: ") + error.what());
  }
  return keeper;
}

LeaseKeeper::~LeaseKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  // Where it cannot be said, others learn it when their grace is over.
  if (counter_ > 0) static_cast<void>(Renew(true));
}

base::Status LeaseKeeper::Renew(bool over) {
  Lease lease{.run_id = options_.run_id,
              .counter = ++counter_,
              .interval = std::chrono::ceil<seconds>(options_.interval),
              .over = over};
  if (options_.deadline) {
    lease.ends_in =
        std::max(seconds(0), std::chrono::ceil<seconds>(*options_.deadline - clock_.now()));
  }
  return base::WriteFileAtomically(options_.file, FormatLease(lease));
}

void LeaseKeeper::Live() {
  bool failing = false;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, options_.interval, [&] { return stopping_; })) {
    lock.unlock();
    const base::Status renewed = Renew(false);
    if (!renewed && !failing) {
      options_.say(
          "the run's lease cannot be renewed, and a watchdog of another node will take it "
          "for dead: " +
          renewed.error().message);
    } else if (renewed && failing) {
      options_.say("the run's lease is renewed again");
    }
    failing = !renewed;
    lock.lock();
  }
}

std::optional<LeaseJudge::State> LeaseJudge::Read(const base::Result<std::string>& read,
                                                  base::Instant now) {
  if (!read) {
    problem_ = read.error().message;
    return std::nullopt;
  }
  auto parsed = ParseLease(*read);
  if (!parsed) {
    problem_ = parsed.error().message;
    return std::nullopt;
  }
  if (parsed->run_id != options_.run_id) {
    problem_ = "is of run " + base::Visible(parsed->run_id);
    // Later it is the lease of the next run in that folder.
    return lease_ ? std::nullopt : std::optional(State::kForeign);
  }
  problem_.clear();
  // An older one is a cache's.
  if (lease_ && parsed->counter <= lease_->counter) return std::nullopt;
  lease_ = std::move(*parsed);
  unrenewed_ = {};
  deadline_.reset();
  if (lease_->ends_in) deadline_ = now + *lease_->ends_in;
  if (lease_->over) return State::kOver;
  if (options_.grace < kLeastRenewalsInGrace * lease_->interval) return State::kGraceTooShort;
  return std::nullopt;
}

LeaseJudge::State LeaseJudge::Take(const std::optional<base::Result<std::string>>& read,
                                   base::Instant now) {
  unrenewed_ += std::min<base::Nanoseconds>(now - last_look_, options_.longest_step);
  last_look_ = now;
  if (read) {
    if (const auto decided = Read(*read, now)) return *decided;
  }
  if (!lease_) return unrenewed_ < options_.wait ? State::kWaiting : State::kNeverSeen;
  if (deadline_ && now >= *deadline_) return State::kDeadline;
  if (unrenewed_ >= options_.grace) return State::kStalled;
  return unrenewed_ > kOverdueRenewals * lease_->interval ? State::kOverdue : State::kRenewed;
}

}  // namespace upgrade_gate::server
