#include "framework/capture/case_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "framework/capture/identity.h"
#include "framework/load/prime.h"
#include "framework/load/schedule.h"
#include "framework/load/shards.h"
#include "framework/probes/server_tokenizer.h"
#include "framework/server/host.h"

namespace upgrade_gate::capture {
namespace {

using evidence::Phase;
using evidence::RoundRecord;
using evidence::StopReason;

base::Result<std::vector<load::PreparedRequest>> Prepare(const plan::ResolvedPlan& plan,
                                                         const plan::Case& of,
                                                         const CasePrompts& prompts, Phase phase,
                                                         int round, int count) {
  const load::RequestSettings settings = load::SettingsOf(plan, of);
  UG_ASSIGN(const auto made, prompts.Of(phase, round, count));
  std::vector<load::PreparedRequest> prepared;
  prepared.reserve(made.size());
  for (const load::Prompt& prompt : made) {
    UG_ASSIGN(prepared.emplace_back(), load::PrepareRequest(settings, prompt));
  }
  return prepared;
}

// The share of a round in which somebody on the host waited for a CPU.
std::optional<double> PressureOver(std::optional<std::chrono::microseconds> before,
                                   std::optional<std::chrono::microseconds> after,
                                   base::Nanoseconds round) {
  if (!before || !after || round.count() <= 0) return std::nullopt;
  const std::chrono::duration<double> waited = *after - *before;
  const std::chrono::duration<double> whole = round;
  return std::clamp(waited / whole, 0.0, 1.0);
}

}  // namespace

CaseSession::CaseSession(const BootRequest& request, const WatchedServer& watched,
                         const std::vector<std::unique_ptr<load::Transport>>& transports,
                         evidence::BootRecord& boot)
    : request_(request), watched_(watched), server_(*watched.server), boot_(boot) {
  for (const auto& transport : transports) transports_.push_back(transport.get());
}

base::Result<bool> CaseSession::Measure(const plan::Case& of) {
  const plan::ResolvedPlan& plan = request_.plan.plan;
  probes::ServerTokenizer tokenizer(*transports_.front(), request_.environment.clock, server_.url(),
                                    plan.model.served_name, request_.environment.interrupted);
  UG_ASSIGN(const CasePrompts prompts,
            CasePrompts::Open(plan, request_.layout, request_.environment.prompts, of, tokenizer));
  UG_ASSIGN(Next next, WarmUp(of, prompts));
  int failures_in_a_row = 0;  // of formal requests only: warm-up never counts
  const int rounds = request_.step.step->rounds;
  for (int number = 1; number <= rounds && next == Next::kRound; ++number) {
    UG_ASSIGN(next, MeasureRound(of, prompts, number, failures_in_a_row));
  }
  return next != Next::kNothing;
}

base::Result<CaseSession::Next> CaseSession::WarmUp(const plan::Case& of,
                                                    const CasePrompts& prompts) {
  warmup_.clear();
  warmup_streams_.clear();
  const int count = request_.plan.plan.warmup_requests(of);
  if (count == 0) return Next::kRound;
  load::Load load = LoadOf(of);
  load.concurrency = std::min(load.concurrency, count);
  UG_ASSIGN(const auto requests,
            Prepare(request_.plan.plan, of, prompts, Phase::kWarmup, 1, count));
  UG_ASSIGN(load::LoadResult result,
            load::RunLoad(TransportsFor(load.concurrency), request_.environment.clock, load,
                          requests, StopCheckFor()));
  warmup_ = std::move(result.requests);
  warmup_streams_ = std::move(result.streams);
  for (evidence::RawStream& stream : warmup_streams_) stream.phase = Phase::kWarmup;
  return After({result.stopped, result.stop_detail}, LookForLoss(), of.name, 0);
}

base::Result<CaseSession::Next> CaseSession::MeasureRound(const plan::Case& of,
                                                          const CasePrompts& prompts, int number,
                                                          int& failures_in_a_row) {
  request_.status.state = "measuring";
  request_.status.case_name = of.name;
  request_.status.round = number;
  UG_ASSIGN(Round round, RunRound(of, prompts, number, failures_in_a_row));
  failures_in_a_row = round.load.failures_in_a_row;
  std::optional<Loss> lost = LookForLoss();
  if (!lost && !IsSameServer(round, of.name, lost)) return Next::kNothing;
  if (!lost) lost = LookForLoss();  // it may have ended while it was asked
  load::StopSignal stopped{round.load.stopped, round.load.stop_detail};
  // Neither an interrupted round is kept nor one whose server was taken away: the case
  // is measured again.
  const auto is = [&](StopReason reason) {
    return stopped.reason == reason || (lost && lost->reason == reason);
  };
  if (!is(StopReason::kInterrupted) && !is(StopReason::kInfrastructure)) {
    UG_TRY(Keep(of, std::move(round)));
  }
  return After(std::move(stopped), std::move(lost), of.name, number);
}

base::Result<CaseSession::Round> CaseSession::RunRound(const plan::Case& of,
                                                       const CasePrompts& prompts, int number,
                                                       int failures_in_a_row) {
  const Environment& environment = request_.environment;
  const plan::Workload& workload = request_.plan.plan.workload;
  load::Load load = LoadOf(of);
  const auto transports = TransportsFor(load.concurrency);
  UG_TRY(
      load::PrimeConnections(transports, environment.clock, server_.url(), of.early_in_flight()));
  if (of.open) {
    load.schedule =
        load::MakeSchedule(*of.open, workload.arrivals_seed,
                           fmt::format("case {} round {}", of.name, number), of.requests);
  }
  load.consecutive_failures = workload.guard.consecutive_failures;
  load.failures_in_a_row = failures_in_a_row;
  UG_ASSIGN(const auto requests,
            Prepare(request_.plan.plan, of, prompts, Phase::kFormal, number, of.requests));

  Round round;
  round.number = number;
  round.started_at = base::FormatUtc(environment.clock.wall());
  int checks = 0;
  const load::StopCheck check = StopCheckFor();
  const auto gpus_before = LookAtGpus();
  const auto pressure_before = server::CpuPressure(environment.host);
  UG_ASSIGN(round.load, load::RunLoad(transports, environment.clock, load, requests, [&] {
              // The first look comes before the first request is sent.
              if (++checks == 2) environment.at(Moment::kMidRound);
              return check();
            }));
  const auto pressure_after = server::CpuPressure(environment.host);
  round.throttled = server::Slowdowns(gpus_before, LookAtGpus());
  round.load.client.cpu_pressure =
      PressureOver(pressure_before, pressure_after, round.load.duration);
  return round;
}

std::optional<Loss> CaseSession::LookForLoss() {
  if (server_.exited()) server_.CatchUpLog();
  return watched_.Lost();
}

bool CaseSession::IsSameServer(const Round& round, const std::string& case_name,
                               std::optional<Loss>& lost) {
  const StopReason stopped = round.load.stopped;
  if (stopped != StopReason::kNone && stopped != StopReason::kGuard) return true;  // not asked
  const auto now = server_.Identify();
  if (!now) {
    // A server that cannot be asked is lost, and what failed by that stays counted.
    lost = LookForLoss();
    if (!lost) {
      lost = Loss{StopReason::kServiceLost,
                  "its identity could not be asked for: " + now.error().message};
    }
    return true;
  }
  const std::string changed = ChangedSince(boot_.server, *now);
  if (changed.empty()) return true;
  // A round that was served by nobody knows what is not evidence: it is missing then.
  boot_.stopped = StopReason::kIdentity;
  boot_.stop_detail = fmt::format(
      "{} in case {} round {}, which is not kept: another server answered than at the start of "
      "the boot",
      changed, case_name, round.number);
  return false;
}

base::Status CaseSession::Keep(const plan::Case& of, Round round) {
  RoundRecord record;
  record.case_name = of.name;
  record.arm = boot_.arm;
  record.boot = boot_.number;
  record.step = boot_.step;
  record.round = round.number;
  record.planned = of.requests;
  record.concurrency = of.concurrency;
  record.started_at = std::move(round.started_at);
  record.duration = round.load.duration;
  record.client = round.load.client;
  record.throttled = std::move(round.throttled);
  record.stopped = round.load.stopped;
  record.stop_detail = std::move(round.load.stop_detail);
  record.requests = std::move(round.load.requests);
  std::vector<evidence::RawStream> streams = std::move(round.load.streams);
  if (round.number == 1) {
    record.warmup = std::move(warmup_);
    std::move(warmup_streams_.begin(), warmup_streams_.end(), std::back_inserter(streams));
  }
  UG_TRY(evidence::WriteRound(request_.layout, record, streams,
                              [&] { request_.environment.at(Moment::kBeforeRename); }));
  return Report(record);
}

base::Result<CaseSession::Next> CaseSession::After(load::StopSignal stopped,
                                                   std::optional<Loss> lost,
                                                   const std::string& case_name, int round) {
  const std::string where = round == 0 ? std::string("warm-up") : fmt::format("round {}", round);
  if (stopped.reason == StopReason::kInterrupted) {
    return base::InfrastructureError(fmt::format(
        "interrupted in case {} of boot {} ({}): finished rounds are kept, run the same command "
        "again to resume",
        case_name, boot_.number, boot_.arm));
  }
  // What is known by now says more than what ended the load.
  const bool ended =
      stopped.reason == StopReason::kServiceLost || stopped.reason == StopReason::kInfrastructure;
  if (ended && !lost) lost = Loss{stopped.reason, std::move(stopped.detail)};
  if (!lost) return stopped.reason == StopReason::kGuard ? Next::kCase : Next::kRound;
  boot_.stopped = lost->reason;
  if (lost->reason == StopReason::kInfrastructure) {
    return base::InfrastructureError(fmt::format(
        "boot {} ({}), case {} {}: {}; that is not the server's doing and the round is not kept. "
        "Finished cases are: run the same command again to resume",
        boot_.number, boot_.arm, case_name, where, lost->why));
  }
  boot_.stop_detail = fmt::format("{} in case {} {}; last log lines: {}", lost->why, case_name,
                                  where, fmt::join(server_.log().last_lines(3), " | "));
  return Next::kNothing;
}

base::Status CaseSession::Report(const RoundRecord& round) {
  const auto failed = std::count_if(round.requests.begin(), round.requests.end(),
                                    [](const auto& r) { return !r.accepted(); });
  std::int64_t tokens = 0;
  for (const auto& r : round.requests) {
    if (r.accepted() && r.usage) tokens += r.usage->completion_tokens;
  }
  const double seconds = std::chrono::duration<double>(round.duration).count();
  Status& status = request_.status;
  ++status.rounds_done;
  status.requests_done += static_cast<int>(round.requests.size());
  status.requests_failed += static_cast<int>(failed);
  request_.environment.say(fmt::format(
      "[{}/{}] {} {} round {}: {} requests, {} failed, {:.1f} tok/s{}", status.rounds_done,
      status.rounds_planned, boot_.arm, round.case_name, round.round, round.requests.size(), failed,
      seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0,
      round.stopped == StopReason::kNone
          ? ""
          : fmt::format(" (stopped: {})", evidence::Name(round.stopped))));
  const std::chrono::duration<double> elapsed = request_.environment.clock.now() - request_.began;
  status.seconds_left = elapsed.count() / (status.rounds_done - request_.rounds_before) *
                        (status.rounds_planned - status.rounds_done);
  status.updated_at = base::FormatUtc(request_.environment.clock.wall());
  return WriteStatus(request_.layout, status);
}

load::Load CaseSession::LoadOf(const plan::Case& of) const {
  const plan::Workload& workload = request_.plan.plan.workload;
  load::Load load;
  load.url = server_.url() + std::string(load::PathOf(of.api));
  load.concurrency = of.most_in_flight();
  load.request_timeout = workload.request_timeout;
  load.stall_limit = workload.stall_limit;
  load.keep_streams = workload.keep_streams;
  load.spool_folder = request_.layout.run();
  load.redact = request_.environment.redact;
  return load;
}

// Looks at the server a few times a second, not at every event.
load::StopCheck CaseSession::StopCheckFor() const {
  return [this, next = base::Instant{}]() mutable -> load::StopSignal {
    if (request_.environment.interrupted()) {
      return {StopReason::kInterrupted, "the runner was asked to stop"};
    }
    const base::Instant now = request_.environment.clock.now();
    if (now < next) return {};
    next = now + std::chrono::milliseconds(20);
    if (auto lost = watched_.Lost()) return {lost->reason, std::move(lost->why)};
    return {};
  };
}

std::vector<server::Gpu> CaseSession::LookAtGpus() const {
  const Environment& environment = request_.environment;
  if (!environment.launcher.serves_here()) return {};
  return server::LookAtGpus(environment.host,
                            server::SelectGpus(request_.plan.plan.server, environment.gpus));
}

std::span<load::Transport* const> CaseSession::TransportsFor(int streams) const {
  return std::span(transports_).first(std::min(transports_.size(), load::ShardsFor(streams)));
}

}  // namespace upgrade_gate::capture
