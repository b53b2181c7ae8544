#include "framework/capture/boot_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "framework/base/text.h"
#include "framework/capture/case_prompts.h"
#include "framework/capture/identity.h"
#include "framework/evidence/image_proof.h"
#include "framework/evidence/store.h"
#include "framework/load/driver.h"
#include "framework/load/prime.h"
#include "framework/load/schedule.h"
#include "framework/load/shards.h"
#include "framework/plan/server_url.h"
#include "framework/probes/readiness.h"
#include "framework/probes/server_facts.h"
#include "framework/probes/server_tokenizer.h"
#include "framework/server/gpus.h"
#include "framework/server/run_argv.h"

namespace upgrade_gate::capture {
namespace {

using evidence::BootRecord;
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

// One a thread, for as much as the plan's largest case has in flight.
base::Result<std::vector<std::unique_ptr<load::Transport>>> MakeTransports(
    const BootRequest& request) {
  const int most = MostInFlight(request.plan.plan);
  std::vector<std::unique_ptr<load::Transport>> transports;
  for (std::size_t i = 0; i < load::ShardsFor(most); ++i) {
    UG_ASSIGN(auto transport,
              request.environment.make_transport(std::min(most, load::kStreamsAShard)));
    transports.push_back(std::move(transport));
  }
  return transports;
}

// A started server and what its log and endpoints have told of it.
struct Watched {
  std::unique_ptr<server::RunningServer> server;
  std::shared_ptr<server::LogWatcher> log;
  std::map<std::string, server::Answer> answers;
  std::vector<evidence::Fact> probed;  // by the plan's commands

  // Why it cannot go on; empty: it can. A line that says why comes before the exit.
  std::string Lost() const {
    if (const auto fault = log->fault()) return server::Describe(*fault);
    if (const auto exit = server->exited()) return "the server ended: " + exit->description;
    return {};
  }

  // By name; what a command of the plan says stands above what a rule found.
  std::vector<evidence::Fact> Facts() const {
    std::map<std::string, evidence::Fact> facts;
    for (const evidence::Fact& fact : probed) facts.try_emplace(fact.name, fact);
    for (evidence::Fact& fact : log->Facts(answers)) {
      const std::string name = fact.name;
      facts.try_emplace(name, std::move(fact));
    }
    std::vector<evidence::Fact> list;
    for (auto& [name, fact] : facts) list.push_back(std::move(fact));
    return list;
  }
};

class Session {
 public:
  Session(const BootRequest& request, const Watched& watched,
          const std::vector<std::unique_ptr<load::Transport>>& transports, BootRecord& boot)
      : request_(request), watched_(watched), server_(*watched.server), boot_(boot) {
    for (const auto& transport : transports) transports_.push_back(transport.get());
  }

  // False: the boot has ended early, boot_ says why.
  base::Result<bool> MeasureCase(const plan::Case& of) {
    const plan::Workload& workload = request_.plan.plan.workload;
    const int rounds = request_.step.step->rounds;
    const plan::ResolvedPlan& plan = request_.plan.plan;
    probes::ServerTokenizer tokenizer(*transports_.front(), request_.environment.clock,
                                      server_.url(), plan.model.served_name,
                                      request_.environment.interrupted);
    UG_ASSIGN(
        const CasePrompts prompts,
        CasePrompts::Open(plan, request_.layout, request_.environment.prompts, of, tokenizer));

    std::vector<evidence::RequestRecord> warmup;
    std::vector<evidence::RawStream> warmup_streams;
    if (const int count = request_.plan.plan.warmup_requests(of); count > 0) {
      load::Load loop = LoopOf(of);
      loop.concurrency = std::min(loop.concurrency, count);
      UG_ASSIGN(const auto requests, Prepare(plan, of, prompts, Phase::kWarmup, 1, count));
      UG_ASSIGN(load::LoadResult result,
                load::RunLoad(TransportsFor(loop.concurrency), request_.environment.clock, loop,
                              requests, StopCheckFor()));
      warmup = std::move(result.requests);
      warmup_streams = std::move(result.streams);
      for (evidence::RawStream& stream : warmup_streams) stream.phase = Phase::kWarmup;
      UG_ASSIGN(const bool goes_on, GoesOn(result, of.name, 0));
      if (!goes_on) return false;
    }

    int failures_in_a_row = 0;  // of formal requests only: warm-up never counts
    for (int number = 1; number <= rounds; ++number) {
      request_.status.state = "measuring";
      request_.status.case_name = of.name;
      request_.status.round = number;
      load::Load loop = LoopOf(of);
      const auto transports = TransportsFor(loop.concurrency);
      UG_TRY(load::PrimeConnections(transports, request_.environment.clock, server_.url(),
                                    of.early_in_flight()));
      if (of.open) {
        loop.schedule =
            load::MakeSchedule(*of.open, workload.arrivals_seed,
                               fmt::format("case {} round {}", of.name, number), of.requests);
      }
      loop.consecutive_failures = workload.guard.consecutive_failures;
      loop.failures_in_a_row = failures_in_a_row;
      UG_ASSIGN(const auto requests,
                Prepare(plan, of, prompts, Phase::kFormal, number, of.requests));
      const std::string started_at = base::FormatUtc(request_.environment.clock.wall());
      int checks = 0;
      const load::StopCheck check = StopCheckFor();
      const auto gpus_before = LookAtGpus();
      const auto pressure_before = server::CpuPressure(request_.environment.host);
      UG_ASSIGN(load::LoadResult result,
                load::RunLoad(transports, request_.environment.clock, loop, requests, [&] {
                  // The first look comes before the first request is sent.
                  if (++checks == 2) request_.environment.at(Moment::kMidRound);
                  return check();
                }));
      failures_in_a_row = result.failures_in_a_row;
      const auto pressure = server::CpuPressure(request_.environment.host);
      const auto gpus_after = LookAtGpus();

      RoundRecord round;
      round.case_name = of.name;
      round.arm = boot_.arm;
      round.boot = boot_.number;
      round.step = boot_.step;
      round.round = number;
      round.planned = of.requests;
      round.concurrency = of.concurrency;
      round.started_at = started_at;
      round.duration = result.duration;
      if (pressure && pressure_before && result.duration.count() > 0) {
        const std::chrono::duration<double> waited = *pressure - *pressure_before;
        const std::chrono::duration<double> whole = result.duration;
        result.client.cpu_pressure = std::clamp(waited / whole, 0.0, 1.0);
      }
      round.client = result.client;
      round.throttled = server::Slowdowns(gpus_before, gpus_after);
      round.stopped = result.stopped;
      round.stop_detail = result.stop_detail;
      round.requests = std::move(result.requests);
      std::vector<evidence::RawStream> streams = std::move(result.streams);
      if (number == 1) {
        round.warmup = std::move(warmup);
        std::move(warmup_streams.begin(), warmup_streams.end(), std::back_inserter(streams));
      }
      // A round that was served by nobody knows what is not evidence: it is missing then.
      const bool whole =
          result.stopped == StopReason::kNone || result.stopped == StopReason::kGuard;
      std::string unknown;
      if (whole && watched_.Lost().empty()) {
        const auto now = server_.Identify();
        const std::string changed = now ? ChangedSince(boot_.server, *now) : "";
        if (!changed.empty()) {
          boot_.stopped = StopReason::kIdentity;
          boot_.stop_detail = fmt::format(
              "{} in case {} round {}, which is not kept: another server answered than at the "
              "start of the boot",
              changed, of.name, number);
          return false;
        }
        // A server that cannot be asked is lost, and what failed by that stays counted.
        if (!now) unknown = "its identity could not be asked for: " + now.error().message;
      }
      // Nor is an interrupted one: its case is measured again.
      if (result.stopped != StopReason::kInterrupted) {
        UG_TRY(evidence::WriteRound(request_.layout, round, streams,
                                    [&] { request_.environment.at(Moment::kBeforeRename); }));
        UG_TRY(Report(round));
      }
      if (!unknown.empty()) {
        result.stopped = StopReason::kServiceLost;
        result.stop_detail = std::move(unknown);
      }
      UG_ASSIGN(const bool goes_on, GoesOn(result, of.name, number));
      if (!goes_on) return false;
      if (result.stopped == StopReason::kGuard) break;  // this case only; the others go on
    }
    return true;
  }

 private:
  load::Load LoopOf(const plan::Case& of) const {
    const plan::Workload& workload = request_.plan.plan.workload;
    load::Load loop;
    loop.url = server_.url() + std::string(load::PathOf(of.api));
    loop.concurrency = of.most_in_flight();
    loop.request_timeout = workload.request_timeout;
    loop.stall_limit = workload.stall_limit;
    loop.keep_streams = workload.keep_streams;
    loop.spool_folder = request_.layout.run();
    loop.redact = request_.environment.redact;
    return loop;
  }

  std::vector<server::Gpu> LookAtGpus() const {
    const Environment& environment = request_.environment;
    return server::LookAtGpus(environment.host,
                              server::SelectGpus(request_.plan.plan.server, environment.gpus));
  }

  std::span<load::Transport* const> TransportsFor(int streams) const {
    return std::span(transports_).first(std::min(transports_.size(), load::ShardsFor(streams)));
  }

  // Looks at the server a few times a second, not at every event.
  load::StopCheck StopCheckFor() {
    return [this, next = base::Instant{}]() mutable -> load::StopSignal {
      if (request_.environment.interrupted()) {
        return {StopReason::kInterrupted, "the runner was asked to stop"};
      }
      const base::Instant now = request_.environment.clock.now();
      if (now < next) return {};
      next = now + std::chrono::milliseconds(20);
      if (std::string lost = watched_.Lost(); !lost.empty()) {
        return {StopReason::kServiceLost, std::move(lost)};
      }
      return {};
    };
  }

  base::Result<bool> GoesOn(const load::LoadResult& result, const std::string& case_name,
                            int round) {
    if (result.stopped == StopReason::kInterrupted) {
      return base::InfrastructureError(fmt::format(
          "interrupted in case {} of boot {} ({}): finished rounds are kept, run the same "
          "command again to resume",
          case_name, boot_.number, boot_.arm));
    }
    std::string lost = result.stopped == StopReason::kServiceLost ? result.stop_detail : "";
    if (lost.empty()) lost = watched_.Lost();
    if (lost.empty()) return true;
    boot_.stopped = StopReason::kServiceLost;
    boot_.stop_detail =
        fmt::format("{} in case {} {}; last log lines: {}", lost, case_name,
                    round == 0 ? std::string("warm-up") : fmt::format("round {}", round),
                    fmt::join(server_.log().last_lines(3), " | "));
    return false;
  }

  base::Status Report(const RoundRecord& round) {
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
        status.rounds_planned, boot_.arm, round.case_name, round.round, round.requests.size(),
        failed, seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0,
        round.stopped == StopReason::kNone
            ? ""
            : fmt::format(" (stopped: {})", evidence::Name(round.stopped))));
    const std::chrono::duration<double> elapsed = request_.environment.clock.now() - request_.began;
    status.seconds_left = elapsed.count() / (status.rounds_done - request_.rounds_before) *
                          (status.rounds_planned - status.rounds_done);
    status.updated_at = base::FormatUtc(request_.environment.clock.wall());
    return WriteStatus(request_.layout, status);
  }

  const BootRequest& request_;
  const Watched& watched_;
  server::RunningServer& server_;
  std::vector<load::Transport*> transports_;
  BootRecord& boot_;
};

base::Sha256Hex IdentityOf(const std::vector<BootRecord::Pin>& pins) {
  if (pins.empty()) return {};
  std::string lines;
  for (const BootRecord::Pin& pin : pins) lines += pin.name + " " + pin.found + "\n";
  return base::Sha256Of(lines);
}

// Asks which image the server's container runs and keeps the proof, also one that does
// not hold, which is an error.
base::Status KeepImageProof(const BootRequest& request, server::RunningServer& server,
                            const BootRecord& boot, const std::string& when) {
  UG_ASSIGN(const auto proof, server.ProveImage(when));
  if (!proof) return {};
  UG_TRY(evidence::WriteImageProof(request.layout, boot, *proof));
  const evidence::ImageProofCheck check = evidence::CheckImageProof(*proof);
  if (check.ok()) return {};
  std::string problems;
  for (const evidence::SealFinding& finding : check.findings) {
    problems += (problems.empty() ? "" : "; ") + finding.problem;
  }
  return base::InfrastructureError("the container does not run the pinned image: " + problems);
}

// Compares what the server says it is with what the plan declares.
base::Status CheckDeclared(const server::RunningServer& server, const plan::Arm& arm,
                           BootRecord& boot) {
  const auto host = boot.server.values.find("host");
  const std::string of_url = plan::HostOf(server.url());
  if (host != boot.server.values.end()) {
    boot.server_host = host->second;
  } else if (!plan::IsLoopback(of_url)) {
    boot.server_host = of_url;
  }
  const std::string differs = DiffersFromPlan(arm.identity, boot.server.values);
  if (differs.empty()) return {};
  return base::InfrastructureError(differs + "; correct the plan, or what sends requests to " +
                                   base::Visible(server.url()));
}

constexpr std::chrono::seconds kProbeLimit{60};
constexpr std::size_t kProbeValueBytes = std::size_t{64} << 10;

// The plan's commands, whose output is a fact each. One that fails leaves its fact
// unknown, and the report says so.
std::vector<evidence::Fact> RunFactProbes(const BootRequest& request, const std::string& url,
                                          const BootRecord& boot) {
  const std::map<std::string, std::string> values = {{"URL", url},
                                                     {"ID", boot.server.id},
                                                     {"BOOT", std::to_string(boot.number)},
                                                     {"ARM", boot.arm}};
  std::vector<evidence::Fact> facts;
  for (const plan::FactProbe& probe : request.plan.plan.server.fact_probes) {
    evidence::Fact& fact = facts.emplace_back(
        evidence::Fact{probe.fact, evidence::FactState::kUnknown, "", "", probe.compared});
    if (!request.environment.host.run) {
      fact.source = "commands are not run here";
      continue;
    }
    std::vector<std::string> argv = probe.argv;
    for (std::string& element : argv) element = server::Substitute(element, values);
    const auto output = request.environment.host.run(argv, kProbeLimit);
    if (!output) {
      fact.source = output.error().message;
      continue;
    }
    std::string text = base::Visible(*output, /*keep_lines=*/true);
    while (text.ends_with('\n')) text.pop_back();
    if (text.size() > kProbeValueBytes) {
      text = fmt::format("{} sha256:{}", base::Shorten(text, kProbeValueBytes),
                         base::Sha256Of(*output));
    }
    fact.state = evidence::FactState::kPresent;
    fact.value = std::move(text);
    fact.source = "the command " + base::Visible(probe.argv[0]);
  }
  return facts;
}

// The machine that serves, where it is not known to be this one: what the server says
// it is, otherwise the host of its URL.
std::string ServerHostOf(const evidence::ServerIdentity& identity, const std::string& url) {
  if (const auto said = identity.values.find("host"); said != identity.values.end()) {
    return said->second;
  }
  std::string host = plan::HostOf(url);
  return plan::IsLoopback(host) ? "" : host;
}

// Compares what the server says it is with what the plan declares.
base::Status CheckIdentity(const BootRequest& request, const server::RunningServer& server,
                           BootRecord& boot) {
  const plan::Arm* const arm = request.plan.plan.FindArm(boot.arm);
  const std::string differs = DiffersFromPlan(arm->identity, boot.server.values);
  if (differs.empty()) return {};
  boot.stopped = StopReason::kIdentity;
  return base::InfrastructureError(
      fmt::format("boot {} ({}): {}; correct the plan, or what sends requests to {}", boot.number,
                  boot.arm, differs, base::Visible(server.url())));
}

// Identity, image and facts of a server that has become ready.
base::Status LearnWhatItIs(const BootRequest& request, const plan::Arm& arm,
                           load::Transport& transport, Watched& watched, BootRecord& boot) {
  server::RunningServer& server = *watched.server;
  const Environment& environment = request.environment;
  UG_ASSIGN(boot.server, server.Identify());
  boot.server_host = ServerHostOf(boot.server, server.url());
  UG_TRY(CheckIdentity(request, server, boot));
  watched.answers = probes::AskEndpoints(transport, environment.clock, server.url(),
                                         watched.log->Endpoints(), environment.interrupted);
  watched.probed = RunFactProbes(request, server.url(), boot);
  boot.facts = watched.Facts();
  UG_TRY(evidence::WriteBoot(request.layout, boot));
  UG_TRY(evidence::WriteFacts(request.layout, boot));
  UG_TRY(KeepImageProof(request, server, boot, "after the start"));
  return CheckDeclared(server, arm, boot);
}

// What is known of a server that was ready or has measured, before it is stopped.
void LookBeforeStop(const Watched& watched, BootRecord& boot) {
  if (boot.stopped != StopReason::kNone) return;
  if (const auto fault = watched.log->fault()) {
    boot.stopped = StopReason::kServiceLost;
    boot.stop_detail = server::Describe(*fault);
    return;
  }
  const auto identity = watched.server->Identify();
  boot.identity_change = identity ? ChangedSince(boot.server, *identity)
                                  : "could not be asked at the end: " + identity.error().message;
}

// Ends the server, records how it ended and what it logged.
base::Status EndBoot(const BootRequest& request, const Watched& watched, BootRecord& boot) {
  server::RunningServer& server = *watched.server;
  LookBeforeStop(watched, boot);
  if (boot.ready_after.count() > 0) {
    if (const auto kept = KeepImageProof(request, server, boot, "before the stop"); !kept) {
      // Of a server that is lost no more can be asked.
      std::string& to = boot.stopped == StopReason::kNone ? boot.identity_change
                                                          : boot.server.warnings.emplace_back();
      to += (to.empty() ? "image: " : "; image: ") + kept.error().message;
    }
  }
  const bool told = watched.log->fault().has_value();
  const auto exit = server.Stop();
  // Its last lines may have come after its end was seen.
  const auto fault = watched.log->fault();
  if (fault && !told && boot.stopped == StopReason::kServiceLost) {
    boot.stop_detail += "; " + server::Describe(*fault);
  }
  boot.warnings = watched.log->warnings();
  boot.facts = watched.Facts();
  boot.exit = exit ? exit->description : "not proved: " + exit.error().message;
  const server::LogCapture::Totals log = server.log().totals();
  boot.log_written = log.written;
  boot.log_kept = log.kept;
  boot.log_sha256 = log.sha256;
  UG_TRY(evidence::WriteServerLog(request.layout, boot, server.log().text()));
  UG_TRY(evidence::WriteBoot(request.layout, boot));
  UG_TRY(evidence::WriteFacts(request.layout, boot));
  UG_TRY(base::RemoveAll(request.layout.live_log(boot.number, boot.arm)));
  if (!exit) return tl::unexpected(exit.error());
  return {};
}

}  // namespace

int MostInFlight(const plan::ResolvedPlan& plan) {
  int most = 1;
  for (const plan::Case& of : plan.workload.cases) most = std::max(most, of.most_in_flight());
  return most;
}

base::Result<BootRecord> RunBoot(const BootRequest& request) {
  const plan::ResolvedPlan& plan = request.plan.plan;
  const Environment& environment = request.environment;
  const plan::Arm* arm = plan.FindArm(request.step.step->arm);
  UG_CHECK(arm != nullptr);

  BootRecord boot;
  boot.number = request.number;
  boot.step = request.step.number;
  boot.arm = arm->name;
  if (request.step.resumes > 0) boot.resumes = request.step.resumes;
  boot.host = environment.client.host;
  boot.client_sha256 = environment.client.sha256;
  boot.gpus = environment.gpus;
  boot.started_at = base::FormatUtc(environment.clock.wall());
  boot.pins = request.identity.pins;
  boot.identity = IdentityOf(boot.pins);
  boot.strength = request.identity.strength;

  Status& status = request.status;
  status.state = "booting";
  status.boot = boot.number;
  status.arm = boot.arm;
  status.case_name.clear();
  status.round = 0;
  status.updated_at = boot.started_at;
  UG_TRY(WriteStatus(request.layout, status));
  environment.say(fmt::format("boot {}: starting {}", boot.number, boot.arm));

  server::ServerSpec spec;
  spec.arm = *arm;
  spec.settings = plan.server;
  spec.plan_directory = request.plan.directory;
  spec.run_id = environment.run_id;
  spec.boot = boot.number;
  spec.gpus = boot.gpus;
  spec.log.file = request.layout.live_log(boot.number, boot.arm);
  spec.say = environment.say;
  spec.interrupted = environment.interrupted;
  boot.host_facts = server::ReadHostFacts(environment.host);
  if (const auto gpus = server::SelectGpus(plan.server, environment.gpus)) {
    const auto free =
        server::CheckGpus(environment.host, *gpus, environment.clock, environment.interrupted);
    if (!free) {
      return tl::unexpected(
          base::At(fmt::format("boot {} ({})", boot.number, boot.arm), free.error()));
    }
  }

  Watched watched;
  watched.log = std::make_shared<server::LogWatcher>(request.rules);
  spec.log.on_line = [log = watched.log](std::string_view line) { log->OnLine(line); };
  UG_TRY(base::CreateDirectories(spec.log.file.parent_path()));
  UG_ASSIGN(watched.server, environment.launcher.Start(spec));
  server::RunningServer& server = *watched.server;
  boot.argv = server.argv();
  boot.compile_cache = server.compile_cache();
  if (request.identity.pull) boot.stages.emplace_back("pull", *request.identity.pull);
  UG_TRY(evidence::WriteBoot(request.layout, boot));
  if (!request.rules->user_file().empty()) {
    UG_TRY(evidence::WriteBootDocument(request.layout, boot, "log_rules.yaml",
                                       request.rules->user_file()));
  }
  for (const auto& [name, bytes] : request.identity.documents) {
    UG_TRY(evidence::WriteBootDocument(request.layout, boot, name, bytes));
  }

  UG_ASSIGN(const auto transports, MakeTransports(request));

  probes::ReadinessSpec readiness;
  readiness.served_name = plan.model.served_name;
  readiness.sampling = plan.workload.sampling;
  readiness.prompts = plan.workload.prompts;
  readiness.api = plan.workload.api;
  readiness.acceptance = plan.workload.acceptance;
  readiness.timeout = plan.server.ready_timeout;
  readiness.limits = plan.server.limits;
  readiness.fault = [&watched] {
    const auto fault = watched.log->fault();
    return fault ? server::Describe(*fault) : std::string();
  };
  readiness.log_ready = [&watched] { return watched.log->ready(); };
  auto ready = probes::WaitUntilReady(*transports.front(), environment.clock, server, readiness,
                                      environment.say, environment.interrupted);
  // The first error is the one to tell; what ending the server said stands in boot.json.
  const auto give_up = [&](base::Error error) {
    boot.stop_detail = error.message;
    if (const auto ended = EndBoot(request, watched, boot); !ended) {
      environment.say("boot " + std::to_string(boot.number) + ": " + ended.error().message);
    }
    return tl::unexpected(std::move(error));
  };
  if (!ready) {
    boot.stopped = environment.interrupted() ? StopReason::kInterrupted : StopReason::kServiceLost;
    return give_up(base::At(fmt::format("boot {} ({})", boot.number, boot.arm), ready.error()));
  }
  boot.ready_after = ready->after;
  boot.version = ready->version;
  boot.stages.insert(boot.stages.end(), ready->stages.begin(), ready->stages.end());
  if (const auto learned = LearnWhatItIs(request, *arm, *transports.front(), watched, boot);
      !learned) {
    boot.stopped = StopReason::kIdentity;
    return give_up(base::At(fmt::format("boot {} ({})", boot.number, boot.arm), learned.error()));
  }
  environment.say(fmt::format("boot {}: {} ready after {:.1f} s", boot.number, boot.arm,
                              std::chrono::duration<double>(boot.ready_after).count()));

  Session session(request, watched, transports, boot);
  for (const std::string& case_name : request.step.pending) {
    const plan::Case* of = plan.FindCase(case_name);
    UG_CHECK(of != nullptr);
    const auto goes_on = session.MeasureCase(*of);
    if (!goes_on) {
      boot.stopped = environment.interrupted() ? StopReason::kInterrupted : StopReason::kNone;
      return give_up(goes_on.error());
    }
    if (!*goes_on) break;
  }
  UG_TRY(EndBoot(request, watched, boot));
  return boot;
}

}  // namespace upgrade_gate::capture
