// The folder grammar of a run: the one place that knows a path.
//
//   <run>/evidence/   plan.yaml plan.resolved.json capture.json
//                     boots/01-baseline/   boot.json facts.json host.json server.log.zst
//                                          image/ proof.json index.json manifest.json config.json
//                     rounds/<case>/01-baseline-r1[.superseded[-N]]/
//                                          round.json requests.jsonl.zst warmup.jsonl.zst
//                                          streams/00007.raw.zst streams/warmup-00007.raw.zst
//                     prompts/<case>.jsonl.zst
//                     summary.json SHA256SUMS
//   <run>/fragments/  <id>.json, one a gate, by the gate binary
//   <run>/judgement/  verdict.json gates/<id>.json SHA256SUMS
//   <run>/report/     summary.txt gates/<id>.txt junit.xml verdict.env
//   <run>/evidence.1  an earlier evidence of another key, moved aside, never deleted
//   <run>/status.json <run>/lock <run>/lease.json   of a running capture; not evidence
//
// A folder that is still being written has the name that it will get with
// ".writing-" before it: rounds/<case>/.writing-01-baseline-r1. A round has
// warmup.jsonl.zst and streams/ only where there is something to put there, and a boot
// image/ only where its server ran in a container (image_proof.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "framework/evidence/records.h"

namespace upgrade_gate::evidence {

inline constexpr const char* kBootFile = "boot.json";
inline constexpr const char* kFactsFile = "facts.json";
inline constexpr const char* kHostFile = "host.json";
inline constexpr const char* kServerLogFile = "server.log.zst";
inline constexpr const char* kRoundFile = "round.json";
inline constexpr const char* kRequestsFile = "requests.jsonl.zst";
inline constexpr const char* kWarmupFile = "warmup.jsonl.zst";
inline constexpr const char* kStreamsFolder = "streams";

class Layout {
 public:
  explicit Layout(std::filesystem::path run) : run_(std::move(run)) {}

  const std::filesystem::path& run() const { return run_; }
  std::filesystem::path evidence() const { return run_ / "evidence"; }
  std::filesystem::path judgement() const { return run_ / "judgement"; }
  std::filesystem::path fragments() const { return run_ / "fragments"; }
  std::filesystem::path report() const { return run_ / "report"; }
  std::filesystem::path status() const { return run_ / "status.json"; }
  std::filesystem::path lock() const { return run_ / "lock"; }
  std::filesystem::path lease() const { return run_ / "lease.json"; }
  // Of a boot that is running, or whose runner died: "logs/01-baseline.log".
  std::filesystem::path live_log(int number, const std::string& arm) const {
    return live_logs() / (BootName(number, arm) + ".log");
  }
  std::filesystem::path live_logs() const { return run_ / "logs"; }

  std::filesystem::path plan() const { return evidence() / "plan.yaml"; }
  std::filesystem::path resolved_plan() const { return evidence() / "plan.resolved.json"; }
  std::filesystem::path capture() const { return evidence() / "capture.json"; }
  std::filesystem::path summary() const { return evidence() / "summary.json"; }
  std::filesystem::path sums() const { return evidence() / "SHA256SUMS"; }
  std::filesystem::path boots() const { return evidence() / "boots"; }
  std::filesystem::path rounds() const { return evidence() / "rounds"; }
  std::filesystem::path prompts() const { return evidence() / "prompts"; }

  std::filesystem::path boot(int number, const std::string& arm) const {
    return boots() / BootName(number, arm);
  }
  std::filesystem::path round(const std::string& case_name, int boot, const std::string& arm,
                              int round) const {
    return rounds() / case_name / (BootName(boot, arm) + "-r" + std::to_string(round));
  }
  std::filesystem::path prompts(const std::string& case_name) const {
    return prompts() / (case_name + ".jsonl.zst");
  }

  // "01-baseline"
  static std::string BootName(int number, const std::string& arm);
  // "00007.raw.zst", "warmup-00007.raw.zst"
  static std::string StreamName(int index, Phase phase);

 private:
  std::filesystem::path run_;
};

// A boot's folder name, taken apart; nothing for a name of another shape.
struct BootFolderName {
  int number = 0;
  std::string arm;
};
std::optional<BootFolderName> ParseBootName(std::string_view name);

// A round's folder name, taken apart; nothing for a name of another shape.
// One round has exactly one name: "1-baseline-r1" and "01-baseline-r01" are none.
struct RoundName {
  int boot = 0;
  std::string arm;
  int round = 0;
  bool superseded = false;
};
std::optional<RoundName> ParseRoundName(const std::string& name);

// `folder` under the name that it has while it is being written.
std::filesystem::path UnfinishedName(const std::filesystem::path& folder);
// True for a folder's name of that kind.
bool IsUnfinishedFolder(std::string_view name);
// True for what WriteFileAtomically leaves when it is interrupted: "boot.json.tmp4711".
bool IsUnfinishedFile(std::string_view name);

}  // namespace upgrade_gate::evidence
