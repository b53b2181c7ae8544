#include "framework/capture/capture.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/capture/boot_session.h"
#include "framework/capture/progress.h"
#include "framework/capture/run_state.h"
#include "framework/evidence/store.h"
#include "framework/load/file_limit.h"
#include "framework/server/gpu_allocation.h"
#include "framework/server/host_memory.h"
#include "framework/server/lease.h"
#include "framework/server/log_rules.h"

namespace upgrade_gate::capture {
namespace {

namespace fs = std::filesystem;
using evidence::CaptureRecord;
using evidence::Layout;

// evidence -> evidence.1, or the next number that is free.
base::Status MoveAside(const Layout& layout, const Environment& environment,
                       const std::string& why) {
  for (int number = 1;; ++number) {
    const fs::path aside = layout.evidence().string() + "." + std::to_string(number);
    std::error_code error;
    if (fs::exists(fs::symlink_status(aside, error))) continue;
    environment.say(fmt::format("{}: moved aside to {}", why, aside.filename().string()));
    return base::RenameDirectory(layout.evidence(), aside);
  }
}

// A rough upper bound of what the run will write: prompts, records, logs.
std::uint64_t BytesNeeded(const plan::ResolvedPlan& plan) {
  constexpr std::uint64_t kLogOfABoot = 64ULL << 20;
  constexpr std::uint64_t kRecord = 4096;
  constexpr std::uint64_t kPerTokenId = 6;
  std::uint64_t bytes = 64ULL << 20;
  for (const plan::BootStep& step : plan.order) {
    bytes += kLogOfABoot;
    for (const std::string& name : step.cases) {
      const plan::Case* of = plan.FindCase(name);
      UG_CHECK(of != nullptr);
      const auto requests =
          static_cast<std::uint64_t>(of->requests) * static_cast<std::uint64_t>(step.rounds);
      bytes += requests * (kRecord + kPerTokenId * static_cast<std::uint64_t>(of->input_tokens));
    }
  }
  return bytes;
}

base::Status CheckDisk(const plan::ResolvedPlan& plan, const Layout& layout) {
  UG_ASSIGN(const std::uint64_t free, base::FreeBytes(layout.run()));
  const std::uint64_t needed = BytesNeeded(plan);
  if (free >= needed) return {};
  return base::InfrastructureError(fmt::format(
      "{}: {} MiB free, the run may write {} MiB; free some or choose another --run folder",
      layout.run().string(), free >> 20, needed >> 20));
}

int PlannedRounds(const plan::ResolvedPlan& plan) {
  int rounds = 0;
  for (const plan::BootStep& step : plan.order) {
    rounds += step.rounds * static_cast<int>(step.cases.size());
  }
  return rounds;
}

enum class Existing { kNone, kResumable, kReusable };

// Decides what the folder holds; whatever cannot serve is moved aside.
base::Result<Existing> LookAtExisting(const plan::ResolvedPlan& plan, const base::Sha256Hex& key,
                                      const Layout& layout, const Environment& environment) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(layout.evidence(), error))) return Existing::kNone;
  const auto record = evidence::ReadCapture(layout);
  const bool sealed = evidence::IsSealed(layout.evidence());
  if (!record) {
    UG_TRY(MoveAside(
        layout, environment,
        "the evidence there does not say what it belongs to (" + record.error().message + ")"));
    return Existing::kNone;
  }
  if (record->key != key) {
    const std::string why = record->workload == plan::WorkloadDigest(plan)
                                ? "the evidence there was measured by another client"
                                : "the evidence there belongs to another workload";
    UG_TRY(MoveAside(layout, environment, why));
    return Existing::kNone;
  }
  if (!sealed) return Existing::kResumable;
  if (!record->complete) {
    UG_TRY(MoveAside(layout, environment, "the evidence there is sealed and incomplete"));
    return Existing::kNone;
  }
  return Existing::kReusable;
}

base::Status WritePlanFiles(const plan::LoadedPlan& plan, const Layout& layout) {
  UG_TRY(base::CreateDirectories(layout.boots()));
  UG_TRY(base::CreateDirectories(layout.rounds()));
  UG_TRY(base::CreateDirectories(layout.prompts()));
  UG_TRY(base::WriteFileAtomically(layout.plan(), plan.yaml));
  return base::WriteFileAtomically(layout.resolved_plan(), plan::WriteResolved(plan.plan));
}

// Proves the pins of every arm that will be booted, before anything starts.
base::Result<std::map<std::string, server::ArmIdentity>> CheckAllPins(
    const plan::LoadedPlan& plan, const std::vector<StepState>& steps,
    const Environment& environment) {
  std::map<std::string, server::ArmIdentity> identities;
  std::string problems;
  for (const StepState& step : steps) {
    if (step.pending.empty() || identities.contains(step.step->arm)) continue;
    server::ServerSpec spec;
    spec.arm = *plan.plan.FindArm(step.step->arm);
    spec.settings = plan.plan.server;
    spec.plan_directory = plan.directory;
    spec.say = environment.say;
    spec.interrupted = environment.interrupted;
    auto checked = environment.launcher.CheckPins(spec);
    if (!checked) {
      if (checked.error().kind != base::ErrorKind::kUsage) return tl::unexpected(checked.error());
      problems += (problems.empty() ? "" : "\n") + checked.error().message;
      continue;
    }
    identities[step.step->arm] = std::move(*checked);
  }
  if (!problems.empty()) return base::UsageError(problems);
  return identities;
}

base::Result<CaptureResult> SealRun(const plan::LoadedPlan& plan, const Layout& layout,
                                    const Environment& environment, CaptureRecord& record,
                                    std::vector<std::string> incidents, Status& status) {
  UG_ASSIGN(const auto rounds, evidence::ReadRounds(layout, false));
  UG_ASSIGN(const auto boots, evidence::ReadBoots(layout));
  std::vector<std::string> gaps = FindGaps(plan.plan, rounds);
  for (std::string& broken : FindBrokenBoots(boots, rounds)) gaps.push_back(std::move(broken));
  incidents.insert(incidents.end(), gaps.begin(), gaps.end());
  record.complete = gaps.empty();
  record.incidents = std::move(incidents);
  record.sealed_at = base::FormatUtc(environment.clock.wall());

  std::vector<std::string> case_order;
  for (const plan::Case& of : plan.plan.workload.cases) case_order.push_back(of.name);
  UG_ASSIGN(const evidence::Summary summary,
            evidence::Summarize(record, boots, rounds, case_order));
  UG_TRY(evidence::WriteCapture(layout, record));
  UG_TRY(base::WriteFileAtomically(layout.summary(), evidence::WriteSummary(summary)));
  environment.at(Moment::kBeforeSeal);
  UG_ASSIGN(const base::Sha256Hex digest, evidence::Seal(layout.evidence()));

  status.state = record.complete ? "sealed" : "incomplete";
  status.detail = "evidence sha256:" + digest;
  status.seconds_left = std::nullopt;
  status.updated_at = record.sealed_at;
  UG_TRY(WriteStatus(layout, status));
  return CaptureResult{record.complete ? Outcome::kSealed : Outcome::kIncomplete, digest,
                       record.incidents};
}

// What it says while it waits is the status's detail too.
base::Result<HostLock> WaitForHost(const Layout& layout, const Environment& environment,
                                   Status& status) {
  const std::function<void(const std::string&)> say = [&](const std::string& line) {
    environment.say(line);
    status.state = "waiting";
    status.detail = line;
    status.updated_at = base::FormatUtc(environment.clock.wall());
    if (const auto written = WriteStatus(layout, status); !written) {
      environment.say(written.error().message);
    }
  };
  return HostLock::Acquire(environment.host_lock, layout.run(),
                           {environment.clock, environment.interrupted, say});
}

// Before a boot: what the one before took of the host's memory has come back. A server that
// somebody else runs, or on another host, says nothing about this one's.
base::Status CheckHostMemory(const Environment& environment, const StepState& step, int boot,
                             bool served_here, std::optional<server::HostMemory>& before) {
  if (!served_here) return {};
  if (!before) {
    UG_ASSIGN(before, server::ReadHostMemory(environment.host));
    return {};
  }
  const auto returned =
      server::CheckMemory(environment.host, *before, environment.clock, environment.interrupted);
  if (returned) return {};
  return tl::unexpected(
      base::At(fmt::format("boot {} ({})", boot, step.step->arm), returned.error()));
}

base::Result<CaptureResult> Measure(const plan::LoadedPlan& plan, const Layout& layout,
                                    const Environment& environment, CaptureRecord& record,
                                    Status& status) {
  UG_ASSIGN(const auto rules, server::LogRules::Load(plan.plan.server.log_rules, plan.directory));
  UG_ASSIGN(const HostLock host_lock, WaitForHost(layout, environment, status));
  UG_TRY(environment.share_host_lock(host_lock.descriptor()));
  status.state = "booting";
  status.detail.clear();
  UG_TRY(WriteStatus(layout, status));
  UG_TRY(CheckDisk(plan.plan, layout));
  // Before the first boot: every boot's server inherits the same limit.
  UG_TRY(load::RaiseFileLimit(MostInFlight(plan.plan)));
  UG_TRY(WritePlanFiles(plan, layout));
  UG_TRY(evidence::WriteCapture(layout, record));

  UG_ASSIGN(const auto steps, PrepareSteps(plan.plan, layout));
  UG_TRY(TakeLeftLogs(layout));
  UG_TRY(environment.check_prompts());
  UG_ASSIGN(auto identities, CheckAllPins(plan, steps, environment));
  UG_ASSIGN(const auto earlier_boots, evidence::ReadBoots(layout));
  int number = 0;
  std::vector<std::string> incidents;
  for (const evidence::BootRecord& boot : earlier_boots) {
    number = std::max(number, boot.number);
    if (boot.stopped == evidence::StopReason::kNone) continue;
    incidents.push_back(fmt::format("boot {} ({}) ended early and was resumed: {}", boot.number,
                                    boot.arm, boot.stop_detail));
  }
  int pending_rounds = 0;
  for (const StepState& step : steps) {
    pending_rounds += static_cast<int>(step.pending.size()) * step.step->rounds;
  }
  status.rounds_planned = PlannedRounds(plan.plan);
  status.rounds_done = status.rounds_planned - pending_rounds;

  const base::Instant began = environment.clock.now();
  const int rounds_before = status.rounds_done;
  bool first = true;
  std::optional<server::HostMemory> memory;  // before the first boot
  bool served_here = environment.launcher.serves_here();
  for (const StepState& step : steps) {
    if (step.pending.empty()) continue;
    if (!first) environment.at(Moment::kBetweenBoots);
    first = false;
    UG_TRY(CheckHostMemory(environment, step, number + 1, served_here, memory));
    const BootRequest request{.plan = plan,
                              .layout = layout,
                              .environment = environment,
                              .step = step,
                              .number = ++number,
                              .identity = identities.at(step.step->arm),
                              .rules = rules,
                              .status = status,
                              .began = began,
                              .rounds_before = rounds_before};
    UG_ASSIGN(const evidence::BootRecord boot, RunBoot(request));
    served_here = environment.launcher.serves_here() && boot.server_host.empty();
    identities.at(step.step->arm).pull.reset();  // was before the arm's first boot
    if (boot.stopped != evidence::StopReason::kNone) {
      incidents.push_back(
          fmt::format("boot {} ({}) ended early: {}", boot.number, boot.arm, boot.stop_detail));
      environment.say(incidents.back());
    }
  }
  return SealRun(plan, layout, environment, record, std::move(incidents), status);
}

}  // namespace

base::Sha256Hex EvidenceKey(const base::Sha256Hex& workload, const base::Sha256Hex& client) {
  return base::Sha256Of("workload " + workload + "\nclient " + client + "\n");
}

base::Result<CaptureResult> Capture(const plan::LoadedPlan& plan, const Layout& layout,
                                    const Environment& environment) {
  if (auto checked = server::CheckAllocation(plan.plan, environment.gpus); !checked) {
    return tl::unexpected(base::At(plan.file, std::move(checked).error()));
  }
  UG_TRY(base::CreateDirectories(layout.run()));
  UG_ASSIGN(const base::FileLock lock, base::FileLock::Acquire(layout.lock()));
  // For watchdogs of other machines, until nothing of the run is left.
  UG_ASSIGN(const auto lease, server::LeaseKeeper::Start({.file = layout.lease(),
                                                          .run_id = environment.run_id,
                                                          .deadline = environment.watched_until,
                                                          .say = environment.say}));

  CaptureRecord record;
  record.plan_name = plan.plan.name;
  record.workload = plan::WorkloadDigest(plan.plan);
  record.key = EvidenceKey(record.workload, environment.client.sha256);
  record.client_version = environment.client.version;
  record.client_sha256 = environment.client.sha256;
  record.host = environment.client.host;
  record.started_at = base::FormatUtc(environment.clock.wall());

  UG_ASSIGN(const Existing existing, LookAtExisting(plan.plan, record.key, layout, environment));
  if (existing == Existing::kReusable) {
    UG_ASSIGN(const evidence::SealCheck seal, evidence::CheckSeal(layout.evidence()));
    if (!seal.ok()) {
      return base::EvidenceError(fmt::format(
          "{}/{}: {}; the sealed evidence was changed: find out why, then move the folder away",
          layout.evidence().string(), base::Visible(seal.findings.front().file),
          seal.findings.front().problem));
    }
    environment.say("sealed evidence of this plan and client is there: nothing is booted");
    return CaptureResult{Outcome::kReused, seal.digest, {}};
  }
  if (existing == Existing::kResumable) {
    UG_ASSIGN(const CaptureRecord earlier, evidence::ReadCapture(layout));
    record.started_at = earlier.started_at;
    environment.say("unfinished evidence of this plan is there: resuming");
  }
  Status status;
  status.state = "booting";
  status.plan = plan.plan.name;
  status.started_at = record.started_at;
  status.updated_at = base::FormatUtc(environment.clock.wall());
  status.pid = getpid();
  status.run_id = environment.run_id;
  UG_TRY(WriteStatus(layout, status));

  auto result = Measure(plan, layout, environment, record, status);
  if (!result) {
    status.state = environment.interrupted() ? "interrupted" : "failed";
    status.detail = result.error().message;
    status.seconds_left = std::nullopt;
    status.updated_at = base::FormatUtc(environment.clock.wall());
    // The run's own error is the one to tell, not that its status could not be written.
    if (const auto written = WriteStatus(layout, status); !written) {
      environment.say(written.error().message);
    }
  }
  return result;
}

}  // namespace upgrade_gate::capture
