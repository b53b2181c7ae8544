#include "framework/capture/server_identity.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "framework/base/text.h"
#include "framework/capture/identity.h"
#include "framework/evidence/image_proof.h"
#include "framework/evidence/store.h"
#include "framework/plan/server_url.h"
#include "framework/probes/server_facts.h"
#include "framework/server/run_argv.h"

namespace upgrade_gate::capture {
namespace {

using evidence::BootRecord;

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
base::Status CheckDeclared(const BootRequest& request, const server::RunningServer& server,
                           const BootRecord& boot) {
  const plan::Arm* const arm = request.plan.plan.FindArm(boot.arm);
  const std::string differs = DiffersFromPlan(arm->identity, boot.server.values);
  if (differs.empty()) return {};
  return base::InfrastructureError(differs + "; correct the plan, or what sends requests to " +
                                   base::Visible(server.url()));
}

}  // namespace

base::Status KeepImageProof(const BootRequest& request, server::RunningServer& server,
                            const evidence::BootRecord& boot, const std::string& when) {
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

base::Status LearnIdentity(const BootRequest& request, load::Transport& transport,
                           WatchedServer& watched, BootRecord& boot) {
  server::RunningServer& server = *watched.server;
  const Environment& environment = request.environment;
  UG_ASSIGN(boot.server, server.Identify());
  boot.server_host = ServerHostOf(boot.server, server.url());
  UG_TRY(CheckDeclared(request, server, boot));
  watched.answers = probes::AskEndpoints(transport, environment.clock, server.url(),
                                         watched.log->Endpoints(), environment.interrupted);
  watched.probed = RunFactProbes(request, server.url(), boot);
  boot.facts = watched.Facts();
  UG_TRY(evidence::WriteBoot(request.layout, boot));
  UG_TRY(evidence::WriteFacts(request.layout, boot));
  return KeepImageProof(request, server, boot, "after the start");
}

}  // namespace upgrade_gate::capture
