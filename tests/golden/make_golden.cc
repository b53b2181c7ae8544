// make_golden OUT: fabricates the golden cases below OUT, the same bytes each time.
//
// The evidence goes through the same writers as a capture's; only the requests
// are made up, from the numbers of golden_plans.cc.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "framework/base/digest.h"
#include "framework/base/file.h"
#include "framework/evidence/store.h"
#include "framework/gates/judge.h"
#include "framework/plan/plan_file.h"
#include "tests/golden/golden_plans.h"

namespace upgrade_gate::golden {
namespace {

using base::Nanoseconds;
using evidence::RequestRecord;
using evidence::RoundRecord;

constexpr const char* kHost = "node-1";
constexpr const char* kStarted = "2026-10-27T01:49:00.000Z";
constexpr const char* kSealed = "2026-10-27T03:01:00.000Z";

Nanoseconds Milliseconds(double ms) {
  return Nanoseconds(static_cast<std::int64_t>(std::llround(ms * 1e6)));
}

// Unique a case, round and request, the same in both arms, and mostly zeros, so
// that it takes little space: what the digest is of does not exist.
base::Sha256Hex BodyDigest(const std::string& case_name, int round, int index) {
  return base::Sha256Of(case_name).substr(0, 24) + fmt::format("{:020x}{:020x}", round, index);
}

RequestRecord MakeRequest(const plan::Case& of, int round, int index, Nanoseconds scheduled,
                          Nanoseconds slot, double ttft_ms, bool empty) {
  RequestRecord request;
  request.index = index;
  request.body_sha256 = BodyDigest(of.name, round, index);
  request.prompt_sha256 = request.body_sha256;
  request.input_tokens = of.input_tokens;
  request.output_tokens = of.output_tokens;
  request.http_status = 200;
  request.usage = evidence::Usage{of.input_tokens, of.output_tokens};
  request.finish_reason = "length";
  request.times.scheduled = scheduled;
  request.times.sent = scheduled;
  // The last of each eight has the whole time to first text, the others up to 7 % less.
  const Nanoseconds first = scheduled + Milliseconds(ttft_ms * (1.0 - 0.01 * (7 - index % 8)));
  request.times.first_byte = first;
  request.times.done = scheduled + slot;
  request.times.closed = scheduled + slot;
  if (empty) {
    request.failure =
        evidence::Failure{evidence::FailureKind::kEmptyOutput, "every choices[].text is empty"};
    return request;
  }
  request.times.first_token = first;
  request.times.first_text = first;
  request.times.last_token = scheduled + slot;
  request.text_bytes = 4 * of.output_tokens;
  request.chunks = of.output_tokens;
  return request;
}

evidence::RawStream EmptyStream(const plan::Case& of, int index) {
  return {.index = index,
          .phase = evidence::Phase::kFormal,
          .bytes = fmt::format(
              "data: {{\"choices\":[{{\"text\":\"\",\"finish_reason\":\"length\"}}]}}\n\n"
              "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{},"
              "\"completion_tokens\":{},\"total_tokens\":{}}}}}\n\ndata: [DONE]\n\n",
              of.input_tokens, of.output_tokens, of.input_tokens + of.output_tokens)};
}

struct MadeRound {
  RoundRecord record;
  std::vector<evidence::RawStream> streams;
};

// Waves of `concurrency` requests of equal length that fill the round; of the
// failed ones, one comes every fifth position.
MadeRound MakeRound(const plan::Case& of, const std::string& arm, int boot, int round,
                    const ArmNumbers& numbers) {
  const auto i = static_cast<std::size_t>(round - 1);
  const int empty = i < numbers.empty.size() ? numbers.empty[i] : 0;
  const double tokens = static_cast<double>((of.requests - empty) * of.output_tokens);
  MadeRound made;
  RoundRecord& record = made.record;
  record.case_name = of.name;
  record.arm = arm;
  record.boot = boot;
  record.step = boot;
  record.round = round;
  record.planned = of.requests;
  record.concurrency = of.concurrency;
  record.started_at = kStarted;
  record.duration = Milliseconds(1000.0 * tokens / numbers.tokens_per_s[i]);
  const int waves = of.requests / of.concurrency;
  const Nanoseconds slot = record.duration / waves;
  for (int index = 0; index < of.requests; ++index) {
    const bool fails = index % 5 == 4 && index / 5 < empty;
    record.requests.push_back(MakeRequest(of, round, index, slot * (index / of.concurrency), slot,
                                          numbers.ttft_ms, fails));
    if (fails) made.streams.push_back(EmptyStream(of, index));
  }
  if (round == 1) {
    record.warmup.push_back(MakeRequest(of, 0, 0, Nanoseconds(0), slot, numbers.ttft_ms, false));
  }
  return made;
}

evidence::BootRecord MakeBoot(int number, const plan::Arm& arm, const base::Sha256Hex& client) {
  evidence::BootRecord boot;
  boot.number = number;
  boot.step = number;
  boot.arm = arm.name;
  boot.host = kHost;
  boot.client_sha256 = client;
  boot.started_at = kStarted;
  boot.version = number == 1 ? "0.31.0" : "0.32.0";
  boot.pins = {{"executable", arm.executable->sha256, arm.executable->sha256}};
  boot.identity = base::Sha256Of("executable " + arm.executable->sha256);
  boot.argv = arm.command;
  boot.argv.insert(boot.argv.begin(), arm.executable->path);
  boot.ready_after = std::chrono::seconds(30);
  boot.exit = "exit code 0";
  return boot;
}

std::string PromptLines(const plan::Case& of, int rounds) {
  std::string lines;
  for (int round = 1; round <= rounds; ++round) {
    lines += fmt::format("{{\"round\":{},\"requests\":[", round);
    for (int index = 0; index < of.requests; ++index) {
      const auto digest = BodyDigest(of.name, round, index);
      lines += fmt::format("{}{{\"body_sha256\":\"{}\",\"prompt_sha256\":\"{}\",\"token_ids\":[]}}",
                           index == 0 ? "" : ",", digest, digest);
    }
    lines += "]}\n";
  }
  return lines;
}

base::Status Make(const Golden& golden, const std::filesystem::path& out) {
  const evidence::Layout layout(out / golden.name);
  UG_TRY(base::RemoveAll(layout.evidence()));
  UG_TRY(base::CreateDirectories(layout.evidence()));
  UG_TRY(base::WriteFileAtomically(layout.run() / "plan.yaml", golden.plan));
  UG_ASSIGN(const plan::LoadedPlan loaded, plan::LoadPlan(layout.run() / "plan.yaml"));
  const plan::ResolvedPlan& plan = loaded.plan;
  UG_TRY(base::WriteFileAtomically(layout.plan(), golden.plan));
  UG_TRY(base::WriteFileAtomically(layout.resolved_plan(), plan::WriteResolved(plan)));

  const base::Sha256Hex client = base::Sha256Of("the client that never was");
  std::vector<evidence::BootRecord> boots = {MakeBoot(1, *plan.baseline(), client),
                                             MakeBoot(2, *plan.candidate(), client)};
  for (const auto& boot : boots) {
    UG_TRY(evidence::WriteBoot(layout, boot));
    UG_TRY(evidence::WriteServerLog(layout, boot, "fabricated: there was no server\n"));
  }
  std::vector<RoundRecord> rounds;
  std::vector<std::string> order;
  for (const CaseNumbers& numbers : golden.cases) {
    const plan::Case& of = *plan.FindCase(numbers.name);
    order.push_back(of.name);
    UG_TRY(evidence::WritePrompts(layout, of.name, PromptLines(of, plan.workload.rounds)));
    for (const auto& boot : boots) {
      const ArmNumbers& arm = boot.number == 1 ? numbers.baseline : numbers.candidate;
      for (int round = 1; round <= plan.workload.rounds; ++round) {
        MadeRound made = MakeRound(of, boot.arm, boot.number, round, arm);
        UG_TRY(evidence::WriteRound(layout, made.record, made.streams));
        rounds.push_back(std::move(made.record));
      }
    }
  }
  evidence::CaptureRecord capture;
  capture.plan_name = plan.name;
  capture.workload = plan::WorkloadDigest(plan);
  capture.key = base::Sha256Of(capture.workload + client);
  capture.client_version = "0.1.0";
  capture.client_sha256 = client;
  capture.host = kHost;
  capture.started_at = kStarted;
  capture.sealed_at = kSealed;
  capture.complete = true;
  UG_TRY(evidence::WriteCapture(layout, capture));
  UG_ASSIGN(const evidence::Summary summary, evidence::Summarize(capture, boots, rounds, order));
  UG_TRY(base::WriteFileAtomically(layout.summary(), evidence::WriteSummary(summary)));
  UG_TRY(evidence::Seal(layout.evidence()));

  UG_ASSIGN(const evidence::SealedEvidence sealed, evidence::LoadSealed(layout));
  const gates::Judgement judgement = gates::JudgeAll(plan, golden.plan, sealed);
  fmt::print("{}: {}: {}\n", golden.name, gates::Name(judgement.decision), judgement.reason);
  return base::WriteFileAtomically(layout.run() / "verdict.json",
                                   gates::WriteJudgement(judgement, sealed.summary));
}

int Main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: make_golden OUT (tests/golden of the source tree)\n");
    return 12;
  }
  for (const Golden& golden : AllGolden()) {
    if (auto made = Make(golden, argv[1]); !made) {
      fmt::print(stderr, "{}: {}\n", golden.name, made.error().message);
      return 13;
    }
  }
  return 0;
}

}  // namespace
}  // namespace upgrade_gate::golden

int main(int argc, char** argv) {
  return upgrade_gate::golden::Main(argc, argv);
}
