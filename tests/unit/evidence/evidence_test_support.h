// Small records and a small run on disk for the tests of framework/evidence.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/digest.h"
#include "framework/base/file.h"
#include "framework/evidence/store.h"

namespace upgrade_gate::evidence {

// A folder of its own, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string name = testing::TempDir() + "evidence-XXXXXX";
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void Put(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string Get(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <typename T>
std::string ErrorOf(const base::Result<T>& result) {
  return result ? "(no error)" : result.error().message;
}

inline base::Nanoseconds Ms(std::int64_t ms) {
  return std::chrono::milliseconds(ms);
}

// Accepted: scheduled at 0 ms, first text at 100 ms, last at 100 + 10 * (tokens - 1) ms.
inline RequestRecord Accepted(int index, std::int64_t tokens = 11) {
  RequestRecord request;
  request.index = index;
  request.body_sha256 = base::Sha256Of("body " + std::to_string(index));
  request.prompt_sha256 = base::Sha256Of("prompt " + std::to_string(index));
  request.input_tokens = 32;
  request.output_tokens = tokens;
  request.times.scheduled = Ms(0);
  request.times.sent = Ms(1);
  request.times.first_byte = Ms(99);
  request.times.first_token = Ms(100);
  request.times.first_text = Ms(100);
  request.times.last_token = Ms(100 + 10 * (tokens - 1));
  request.times.done = *request.times.last_token + Ms(1);
  request.times.closed = *request.times.last_token + Ms(2);
  request.http_status = 200;
  request.usage = Usage{32, tokens};
  request.finish_reason = "length";
  request.text_bytes = 4 * tokens;
  request.chunks = tokens;
  return request;
}

inline RequestRecord Failed(int index, FailureKind kind) {
  RequestRecord request = Accepted(index);
  request.failure = Failure{kind, "said so"};
  request.times.first_token = request.times.first_text = request.times.last_token = std::nullopt;
  request.text_bytes = request.chunks = 0;
  return request;
}

// Lasts one second.
inline RoundRecord RoundOf(const std::string& arm, int boot, int round,
                           std::vector<RequestRecord> requests) {
  RoundRecord record;
  record.case_name = "1k-512-c1";
  record.arm = arm;
  record.boot = boot;
  record.step = boot;
  record.round = round;
  record.planned = static_cast<int>(requests.size());
  record.concurrency = 1;
  record.started_at = "2026-10-18T09:30:00.125Z";
  record.duration = Ms(1000);
  record.requests = std::move(requests);
  return record;
}

inline BootRecord BootOf(const std::string& arm, int number) {
  BootRecord boot;
  boot.number = number;
  boot.step = number;
  boot.arm = arm;
  boot.host = "host-a";
  boot.client_sha256 = base::Sha256Of("client");
  boot.started_at = "2026-10-18T09:29:00.000Z";
  boot.version = "1.2.3";
  boot.pins = {{"executable", base::Sha256Of("exe"), base::Sha256Of("exe")},
               {"file profile.yaml", base::Sha256Of("profile"), ""}};
  boot.identity = base::Sha256Of("identity");
  boot.argv = {"serve", "--port", "$PORT"};
  boot.ready_after = Ms(1500);
  boot.exit = "exit code 0";
  return boot;
}

inline constexpr std::string_view kWorkload = R"({"name":"small","cases":["1k-512-c1","8k"]})";

inline CaptureRecord CaptureOf() {
  CaptureRecord capture;
  capture.plan_name = "small";
  capture.workload = base::Sha256Of(kWorkload);
  capture.key = base::Sha256Of("key");
  capture.client_version = "0.1.0";
  capture.client_sha256 = base::Sha256Of("client");
  capture.host = "host-a";
  capture.started_at = "2026-10-18T09:28:00.000Z";
  capture.sealed_at = "2026-10-18T10:28:00.000Z";
  capture.complete = true;
  return capture;
}

// Two arms, one boot each, one case with two rounds of two requests; baseline's
// second round has an empty answer. A second case was not run.
inline void WriteRun(const Layout& layout) {
  std::vector<BootRecord> boots = {BootOf("baseline", 1), BootOf("candidate", 2)};
  std::vector<RoundRecord> rounds;
  for (const BootRecord& boot : boots) {
    ASSERT_TRUE(WriteBoot(layout, boot));
    ASSERT_TRUE(WriteServerLog(layout, boot, "ready\n"));
    for (const int number : {1, 2}) {
      RoundRecord round = RoundOf(boot.arm, boot.number, number, {Accepted(0), Accepted(1)});
      std::vector<RawStream> streams;
      if (number == 1) round.warmup = {Accepted(0)};
      if (number == 2 && boot.arm == "baseline") {
        round.requests[1] = Failed(1, FailureKind::kEmptyOutput);
        streams.push_back({1, Phase::kFormal, "data: [DONE]\n\n"});
      }
      ASSERT_EQ(ErrorOf(WriteRound(layout, round, streams)), "(no error)");
      rounds.push_back(round);
    }
  }
  const CaptureRecord capture = CaptureOf();
  ASSERT_TRUE(WriteCapture(layout, capture));
  ASSERT_TRUE(WritePrompts(layout, "1k-512-c1", "{\"round\":1,\"requests\":[]}\n"));
  Put(layout.plan(), "version: 1\n");
  Put(layout.resolved_plan(),
      "{\"schema\":1,\"workload\":" + std::string(kWorkload) + ",\"gates\":[]}\n");
  const auto summary = Summarize(capture, boots, rounds, {"1k-512-c1", "8k"});
  ASSERT_TRUE(summary) << summary.error().message;
  Put(layout.summary(), WriteSummary(*summary));
}

inline void WriteSealedRun(const Layout& layout) {
  WriteRun(layout);
  const auto sealed = Seal(layout.evidence());
  ASSERT_TRUE(sealed) << sealed.error().message;
}

// After a change that somebody hides by sealing again.
inline void SealAgain(const Layout& layout) {
  std::filesystem::remove(layout.sums());
  const auto sealed = Seal(layout.evidence());
  ASSERT_TRUE(sealed) << sealed.error().message;
}

inline void Replace(const std::filesystem::path& path, std::string_view from, std::string_view to) {
  std::string text = Get(path);
  const auto at = text.find(from);
  ASSERT_NE(at, std::string::npos) << path << " has no " << from;
  text.replace(at, from.size(), to);
  Put(path, text);
}

// "file: problem" each.
inline std::vector<std::string> Lines(const std::vector<SealFinding>& findings) {
  std::vector<std::string> lines;
  for (const SealFinding& finding : findings) {
    lines.push_back(finding.file + ": " + finding.problem);
  }
  return lines;
}

inline std::vector<std::string> Files(const std::vector<SealFinding>& findings) {
  std::vector<std::string> files;
  for (const SealFinding& finding : findings) files.push_back(finding.file);
  return files;
}

}  // namespace upgrade_gate::evidence
