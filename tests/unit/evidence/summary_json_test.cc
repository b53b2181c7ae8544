#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <string>

#include "framework/base/json.h"
#include "framework/evidence/summary.h"
#include "tests/unit/evidence/evidence_test_support.h"

namespace upgrade_gate::evidence {
namespace {

using testing::HasSubstr;

Summary Sample() {
  RoundRecord round =
      RoundOf("baseline", 1, 1, {Accepted(0), Failed(1, FailureKind::kEmptyOutput), Accepted(2)});
  round.duration = base::Nanoseconds(3'000'000'001);
  round.warmup = {Accepted(0)};
  RoundRecord stopped = RoundOf("candidate", 2, 1, {Failed(0, FailureKind::kTransport)});
  stopped.planned = 5;
  stopped.stopped = StopReason::kGuard;
  CaptureRecord capture = CaptureOf();
  capture.complete = false;
  capture.incidents = {"line one\nline \"two\" – ü"};
  BootRecord resumed = BootOf("candidate", 2);
  resumed.resumes = 1;
  resumed.identity = "";
  resumed.gpus = {"0", "1"};
  resumed.facts = {{"attention", FactState::kPresent, "FA3", "log line 7"},
                   {"replay", FactState::kAbsent, "", "/info has no /replay", false}};
  resumed.host_facts = {{"kernel", FactState::kUnknown, "", "cannot be read"}};
  auto summary =
      Summarize(capture, {BootOf("baseline", 1), resumed}, {round, stopped}, {"8k", "1k-512-c1"});
  EXPECT_TRUE(summary) << ErrorOf(summary);
  return *std::move(summary);
}

TEST(SummaryJsonTest, WhatIsReadWritesTheSameBytes) {
  const std::string text = WriteSummary(Sample());
  const auto read = ReadSummary(text);
  ASSERT_TRUE(read) << ErrorOf(read);
  EXPECT_EQ(WriteSummary(*read), text);
  EXPECT_EQ(read->capture.incidents, Sample().capture.incidents);
  EXPECT_EQ(read->boots.at(1).resumes, 1);
  EXPECT_EQ(read->boots.at(0).resumes, std::nullopt);
  EXPECT_EQ(read->boots.at(1).gpus, Sample().boots.at(1).gpus);
  ASSERT_EQ(read->boots.at(1).facts.size(), 2U);
  EXPECT_EQ(read->boots.at(1).facts.at(0).value, "FA3");
  EXPECT_EQ(read->boots.at(1).facts.at(1).state, FactState::kAbsent);
  EXPECT_FALSE(read->boots.at(1).facts.at(1).compared);
  ASSERT_EQ(read->boots.at(1).host_facts.size(), 1U);
  EXPECT_TRUE(read->boots.at(0).facts.empty());
  EXPECT_EQ(read->boots.at(0).pins.at(1).found, "");
  EXPECT_EQ(read->boots.at(0).argv, BootOf("baseline", 1).argv);
  EXPECT_EQ(read->cases.at(0).name, "8k");
  const ArmRounds& arm = read->cases.at(1).arms.at("baseline");
  EXPECT_EQ(arm.warmup.requests, 1);
  EXPECT_EQ(arm.rounds.at(0).duration_s, 3.000000001);
  EXPECT_EQ(arm.rounds.at(0).latency.at(Metric::kTtft).percentiles_ms.at(95), 100.0);
  const RoundSummary& stopped = read->cases.at(1).arms.at("candidate").rounds.at(0);
  EXPECT_EQ(stopped.stopped, StopReason::kGuard);
  EXPECT_EQ(stopped.planned, 5);
  EXPECT_TRUE(stopped.latency.at(Metric::kTtft).percentiles_ms.empty());
  EXPECT_EQ(read->arms.at("baseline").counts.by_kind.at(FailureKind::kEmptyOutput), 1);
}

TEST(SummaryJsonTest, GpusAreMissingWithoutAnAllocationAndNeverEmpty) {
  const auto json = base::ParseJson(WriteSummary(Sample()));
  ASSERT_TRUE(json);
  EXPECT_FALSE(json->at("boots").at(0).contains("gpus"));
  EXPECT_EQ(json->at("boots").at(1).at("gpus").dump(), R"(["0","1"])");
  for (const char* wrong : {"[]", "null", "[0]", R"(["0\u001b"])", R"("0")"}) {
    base::Json changed = *json;
    changed["boots"][1]["gpus"] = base::Json::parse(wrong);
    const auto read = ReadSummary(changed.dump());
    ASSERT_FALSE(read) << wrong;
    EXPECT_THAT(ErrorOf(read), testing::StartsWith("boots[1]: ")) << wrong;
  }
}

TEST(SummaryJsonTest, UsesTheNamesOfTheMachineReadableOutput) {
  const auto json = base::ParseJson(WriteSummary(Sample()));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->at("schema"), 1);
  EXPECT_EQ(json->at("arms").at("baseline").dump(),
            R"({"requests":3,"failed":1,"failures":{"empty_output":1},"rounds":1})");
  const auto& arm = json->at("cases").at(1).at("arms").at("baseline");
  EXPECT_EQ(arm.at("failed"), 1);
  const auto& round = arm.at("rounds").at(0);
  EXPECT_EQ(round.at("boot"), 1);
  EXPECT_EQ(round.at("ttft_ms").dump(),
            R"({"count":2,"p50":100.0,"p90":100.0,"p95":100.0,"p99":100.0})");
  EXPECT_EQ(round.at("tpot_ms").at("p50"), 10.0);
  EXPECT_EQ(round.at("e2e_ms").at("p95"), 200.0);
  EXPECT_TRUE(round.contains("output_tokens_per_s"));
  const auto& stopped = json->at("cases").at(1).at("arms").at("candidate").at("rounds").at(0);
  EXPECT_EQ(stopped.at("ttft_ms").dump(),
            R"({"count":0,"p50":null,"p90":null,"p95":null,"p99":null})");
  EXPECT_EQ(stopped.at("stopped"), "guard");
}

TEST(SummaryJsonTest, NumbersDoNotDependOnTheLocale) {
  const std::string text = WriteSummary(Sample());
  EXPECT_THAT(text, HasSubstr("3.000000001"));
  // Where the system has such a locale; the bytes must be the same with any.
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "C"}) {
    if (std::setlocale(LC_ALL, name) == nullptr) continue;
    EXPECT_EQ(WriteSummary(Sample()), text) << name;
    const auto read = ReadSummary(text);
    EXPECT_TRUE(read && WriteSummary(*read) == text) << name;
  }
  std::setlocale(LC_ALL, before.c_str());
}

// One change of the text, and what the reader says to it.
std::string After(const std::string& from, const std::string& to) {
  std::string text = WriteSummary(Sample());
  const auto at = text.find(from);
  if (at == std::string::npos) return "no such text: " + from;
  text.replace(at, from.size(), to);
  return ErrorOf(ReadSummary(text));
}

TEST(SummaryJsonTest, RefusesWhatItDidNotWrite) {
  EXPECT_EQ(After("\"schema\": 1", "\"schema\": 2"), "\"schema\" is 2; this version reads 1");
  EXPECT_THAT(After("\"complete\": false,", "\"complete\": false, \"complete\": true,"),
              HasSubstr("doubled key \"complete\""));
  EXPECT_THAT(After("\"complete\": false,", ""), HasSubstr("capture: \"complete\" is missing"));
  EXPECT_THAT(After("\"count\": 2", "\"count\": -2"),
              HasSubstr("case 1k-512-c1, arm baseline: rounds[0]: ttft_ms: \"count\" is -2"));
  EXPECT_THAT(After("\"count\": 2", "\"count\": 0"),
              HasSubstr("\"p50\" is a percentile of nothing"));
  EXPECT_THAT(After("\"count\": 2", "\"count\": 18446744073709551615"), HasSubstr("\"count\" is"));
  EXPECT_THAT(After("\"count\": 2", "\"count\": 2.0"), HasSubstr("not an integer"));
  EXPECT_THAT(After("\"p50\": 100.0", "\"p50\": -1"), HasSubstr("below 0"));
  EXPECT_THAT(After("\"p50\": 100.0", "\"p50\": 1e999"), HasSubstr("not valid JSON"));
  EXPECT_THAT(After("\"p50\": 100.0", "\"p50\": NaN"), HasSubstr("not valid JSON"));
  EXPECT_THAT(After("\"p50\": 100.0", "\"p50\": \"fast\""), HasSubstr("not a number"));
  EXPECT_THAT(After("\"empty_output\": 1", "\"empty_outptu\": 1"),
              HasSubstr("unknown failure kind \"empty_outptu\" (did you mean \"empty_output\"?)"));
  EXPECT_THAT(After("\"failed\": 1", "\"failed\": 0"),
              HasSubstr("\"failed\" is 0, but its kinds add up to 1"));
  EXPECT_THAT(After("\"number\": 2", "\"number\": 1"), HasSubstr("boot 1: is there twice"));
  EXPECT_THAT(After("\"name\": \"8k\"", "\"name\": \"../8k\""), HasSubstr("not a plain name"));
  EXPECT_THAT(After("\"name\": \"8k\"", "\"name\": \"1k-512-c1\""), HasSubstr("is there twice"));
  EXPECT_THAT(After("\"baseline\": {", "\"\\u001b[2J\": {"),
              HasSubstr("\"\\x1b[2J\" is not the name"));
  EXPECT_THAT(After("2026-10-18T10:28:00.000Z", "yesterday"), HasSubstr("\"sealed_at\" is"));
  EXPECT_THAT(After("\"planned\": 3", "\"planned\": 2"),
              HasSubstr("3 requests, but only 2 were planned"));
  EXPECT_THAT(After("\"stopped\": \"guard\"", "\"stopped\": \"bored\""),
              HasSubstr("no reason to stop"));
}

TEST(SummaryJsonTest, RefusesBrokenTextAtAnyLength) {
  const std::string text = WriteSummary(Sample());
  for (std::size_t length = 0; length + 1 < text.size(); length += 13) {
    EXPECT_FALSE(ReadSummary(text.substr(0, length))) << length;
  }
  EXPECT_FALSE(ReadSummary(text + "{}"));
  EXPECT_FALSE(ReadSummary("[]"));
  EXPECT_FALSE(ReadSummary("null"));
  EXPECT_FALSE(ReadSummary(std::string(100'000, '[')));
}

// No flip may crash the reader or make it write what it cannot read.
TEST(SummaryJsonTest, SurvivesFlippedBytes) {
  const std::string text = WriteSummary(Sample());
  for (std::size_t i = 0; i < text.size(); i += 7) {  // all bits: 7 and 8 are coprime
    std::string bad = text;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    const auto read = ReadSummary(bad);
    if (!read) continue;
    const auto again = ReadSummary(WriteSummary(*read));
    EXPECT_TRUE(again) << "byte " << i << ": " << ErrorOf(again);
  }
}

}  // namespace
}  // namespace upgrade_gate::evidence
