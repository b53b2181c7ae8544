#include "framework/capture/boot_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/capture/case_session.h"
#include "framework/capture/identity.h"
#include "framework/capture/server_identity.h"
#include "framework/capture/watched_server.h"
#include "framework/evidence/store.h"
#include "framework/load/shards.h"
#include "framework/probes/readiness.h"
#include "framework/server/gpus.h"
#include "framework/server/host.h"

namespace upgrade_gate::capture {
namespace {

using evidence::BootRecord;
using evidence::StopReason;

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

base::Sha256Hex IdentityOf(const std::vector<BootRecord::Pin>& pins) {
  if (pins.empty()) return {};
  std::string lines;
  for (const BootRecord::Pin& pin : pins) lines += pin.name + " " + pin.found + "\n";
  return base::Sha256Of(lines);
}

BootRecord NewRecord(const BootRequest& request) {
  const Environment& environment = request.environment;
  BootRecord boot;
  boot.number = request.number;
  boot.step = request.step.number;
  boot.arm = request.step.step->arm;
  if (request.step.resumes > 0) boot.resumes = request.step.resumes;
  boot.host = environment.client.host;
  boot.client_sha256 = environment.client.sha256;
  boot.gpus = environment.gpus;
  boot.started_at = base::FormatUtc(environment.clock.wall());
  boot.pins = request.identity.pins;
  boot.identity = IdentityOf(boot.pins);
  boot.strength = request.identity.strength;
  boot.host_facts = server::ReadHostFacts(environment.host);
  return boot;
}

base::Status TellBooting(const BootRequest& request, const BootRecord& boot) {
  Status& status = request.status;
  status.state = "booting";
  status.boot = boot.number;
  status.arm = boot.arm;
  status.case_name.clear();
  status.round = 0;
  status.updated_at = boot.started_at;
  UG_TRY(WriteStatus(request.layout, status));
  request.environment.say(fmt::format("boot {}: starting {}", boot.number, boot.arm));
  return {};
}

// Whether the host is as free as a measurement needs it.
base::Status CheckHost(const BootRequest& request) {
  const Environment& environment = request.environment;
  if (!environment.launcher.serves_here()) return {};
  const auto gpus = server::SelectGpus(request.plan.plan.server, environment.gpus);
  if (!gpus) return {};
  return server::CheckGpus(environment.host, *gpus, environment.clock, environment.interrupted);
}

// Starts the server, its log read from the first line, and writes what it was started by.
base::Status Start(const BootRequest& request, const plan::Arm& arm, WatchedServer& watched,
                   BootRecord& boot) {
  server::ServerSpec spec;
  spec.arm = arm;
  spec.settings = request.plan.plan.server;
  spec.plan_directory = request.plan.directory;
  spec.run_id = request.environment.run_id;
  spec.boot = boot.number;
  spec.gpus = boot.gpus;
  spec.log.file = request.layout.live_log(boot.number, boot.arm);
  spec.log.on_line = [log = watched.log](std::string_view line) { log->OnLine(line); };
  spec.say = request.environment.say;
  spec.interrupted = request.environment.interrupted;
  UG_TRY(base::CreateDirectories(spec.log.file.parent_path()));
  UG_ASSIGN(watched.server, request.environment.launcher.Start(spec));
  boot.argv = watched.server->argv();
  boot.compile_cache = watched.server->compile_cache();
  if (request.identity.pull) boot.stages.emplace_back("pull", *request.identity.pull);

  UG_TRY(evidence::WriteBoot(request.layout, boot));
  if (const auto& rules = request.rules->user_file(); !rules.empty()) {
    UG_TRY(evidence::WriteBootDocument(request.layout, boot, "log_rules.yaml", rules));
  }
  for (const auto& [name, bytes] : request.identity.documents) {
    UG_TRY(evidence::WriteBootDocument(request.layout, boot, name, bytes));
  }
  return {};
}

// `watched` must outlive what is returned.
probes::ReadinessSpec ReadinessOf(const plan::ResolvedPlan& plan, const WatchedServer& watched) {
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
  return readiness;
}

// What is known of a server that was ready or has measured, before it is stopped. False:
// its engine is gone, and nobody can be asked any more.
bool LookBeforeStop(const WatchedServer& watched, BootRecord& boot) {
  if (boot.stopped != StopReason::kNone) return true;
  const auto identity = watched.server->Identify();
  // After its last answer, so that nobody saw it yet. Each round had its own look.
  const auto lost = watched.Lost();
  if (lost && lost->reason == StopReason::kInfrastructure) {
    boot.server.warnings.push_back(lost->why + ", after its last request");
    return false;
  }
  if (lost) {
    boot.stopped = lost->reason;
    boot.stop_detail = lost->why + " after its last request";
  }
  boot.identity_change = identity ? ChangedSince(boot.server, *identity)
                                  : "could not be asked at the end: " + identity.error().message;
  return true;
}

// Ends the server, records how it ended and what it logged.
base::Status EndBoot(const BootRequest& request, const WatchedServer& watched, BootRecord& boot) {
  server::RunningServer& server = *watched.server;
  const bool known = LookBeforeStop(watched, boot);
  if (boot.ready_after.count() > 0 && known) {
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
  BootRecord boot = NewRecord(request);
  const std::string place = fmt::format("boot {} ({})", boot.number, boot.arm);
  UG_TRY(TellBooting(request, boot));
  if (auto free = CheckHost(request); !free) {
    return tl::unexpected(base::At(place, std::move(free).error()));
  }

  WatchedServer watched;
  watched.log = std::make_shared<server::LogWatcher>(request.rules);
  UG_TRY(Start(request, *arm, watched, boot));
  UG_ASSIGN(const auto transports, MakeTransports(request));

  // The first error is the one to tell; what ending the server said stands in boot.json.
  const auto give_up = [&](StopReason reason, base::Error error) {
    if (boot.stopped == StopReason::kNone) boot.stopped = reason;
    if (environment.interrupted()) boot.stopped = StopReason::kInterrupted;
    boot.stop_detail = error.message;
    if (const auto ended = EndBoot(request, watched, boot); !ended) {
      environment.say("boot " + std::to_string(boot.number) + ": " + ended.error().message);
    }
    return tl::unexpected(std::move(error));
  };
  auto ready =
      probes::WaitUntilReady(*transports.front(), environment.clock, *watched.server,
                             ReadinessOf(plan, watched), environment.say, environment.interrupted);
  if (!ready) {
    const auto lost = watched.Lost();
    return give_up(lost ? lost->reason : StopReason::kServiceLost, base::At(place, ready.error()));
  }
  boot.ready_after = ready->after;
  boot.version = ready->version;
  boot.stages.insert(boot.stages.end(), ready->stages.begin(), ready->stages.end());
  if (auto learned = LearnIdentity(request, *transports.front(), watched, boot); !learned) {
    return give_up(StopReason::kIdentity, base::At(place, learned.error()));
  }
  environment.say(fmt::format("boot {}: {} ready after {:.1f} s", boot.number, boot.arm,
                              std::chrono::duration<double>(boot.ready_after).count()));

  CaseSession session(request, watched, transports, boot);
  for (const std::string& case_name : request.step.pending) {
    const plan::Case* of = plan.FindCase(case_name);
    UG_CHECK(of != nullptr);
    const auto goes_on = session.Measure(*of);
    if (!goes_on) return give_up(StopReason::kNone, goes_on.error());
    if (!*goes_on) break;
  }
  UG_TRY(EndBoot(request, watched, boot));
  return boot;
}

}  // namespace upgrade_gate::capture
