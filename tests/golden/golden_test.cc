// Judges the checked-in evidence of each golden case and compares the whole
// verdict, byte by byte; the decisive numbers are also written down here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/base/exit_code.h"
#include "framework/base/file.h"
#include "framework/base/json.h"
#include "framework/evidence/store.h"
#include "framework/gates/judge.h"
#include "framework/plan/plan_file.h"
#include "tests/support/german_locale.h"

namespace upgrade_gate::gates {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Case {
  std::string name;
  std::string decision;
  std::vector<std::string> verdicts;  // in the plan's order
};

class GoldenTest : public ::testing::TestWithParam<Case> {};

evidence::Layout LayoutOf(const std::string& name) {
  return evidence::Layout(std::filesystem::path(UPGRADE_GATE_GOLDEN_DIR) / name);
}

std::string Judged(const std::string& name) {
  const evidence::Layout layout = LayoutOf(name);
  const auto sealed = evidence::LoadSealed(layout);
  if (!sealed) return sealed.error().message;
  const auto loaded = plan::LoadPlan(layout.run() / "plan.yaml");
  if (!loaded) return loaded.error().message;
  return WriteJudgement(JudgeAll(loaded->plan, loaded->yaml, *sealed), sealed->summary);
}

base::Json Verdict(const std::string& name) {
  const auto text = base::ReadFile(LayoutOf(name).run() / "verdict.json", 4 << 20);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  const auto json = base::ParseJson(*text);
  EXPECT_TRUE(json.has_value()) << json.error().message;
  return *json;
}

TEST_P(GoldenTest, EvidenceGivesTheCheckedInVerdictByteForByte) {
  const auto expected = base::ReadFile(LayoutOf(GetParam().name).run() / "verdict.json", 4 << 20);
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  EXPECT_EQ(Judged(GetParam().name), *expected);
}

// Plan, evidence and verdict: a user's gate binary may set any locale.
TEST_P(GoldenTest, GivesTheSameVerdictInAGermanLocale) {
  const std::string before = Judged(GetParam().name);
  const test::GermanLocale german;
  EXPECT_EQ(Judged(GetParam().name), before);
}

TEST_P(GoldenTest, EvidenceIsSealedAndItsSummaryIsThatOfTheRecords) {
  const auto verified = evidence::VerifyEvidence(LayoutOf(GetParam().name));
  ASSERT_TRUE(verified.has_value()) << verified.error().message;
  for (const auto& finding : verified->findings) ADD_FAILURE() << finding.file << finding.problem;
  EXPECT_THAT(verified->not_checked, ElementsAre());
}

TEST_P(GoldenTest, DecidesAsTheNumbersSay) {
  const base::Json json = Verdict(GetParam().name);
  EXPECT_EQ(json["decision"], GetParam().decision);
  std::vector<std::string> verdicts;
  for (const auto& gate : json["gates"]) verdicts.push_back(gate["verdict"].get<std::string>());
  EXPECT_EQ(verdicts, GetParam().verdicts);
}

const std::string kPass = "pass";
const std::string kFail = "fail";
const std::string kOpen = "inconclusive";

INSTANTIATE_TEST_SUITE_P(
    All, GoldenTest,
    ::testing::Values(
        Case{"unchanged", "accept", {kPass, kPass, kPass, kPass, kPass}},
        Case{"slower_decode", "reject", {kFail, kFail, kPass, kPass, kPass}},
        Case{"empty_outputs", "reject", {kFail, kOpen, kPass, kPass, kOpen, kPass}},
        Case{"too_few_rounds", "inconclusive", {kOpen, kOpen, kOpen, kOpen, kPass}},
        Case{"article", "inconclusive", {kPass, kOpen, kOpen, kPass, kPass, kOpen, kPass}}),
    [](const auto& instance) { return instance.param.name; });

// d = ln 0.75 + 0.002·{1, -1, 0}: s = 0.002, 2.920·0.002/√3 = 0.00337;
// 1.6449·√2·0.01 = 0.02326; half-width 0.02350; 0.75·exp(±0.02350).
TEST(Golden, SlowerDecodeNamesCaseMediansRatioIntervalAndMargin) {
  const base::Json gate = Verdict("slower_decode")["gates"][0];
  EXPECT_NEAR(gate["estimate"].get<double>(), 0.75, 1e-7);
  EXPECT_NEAR(gate["interval"][0].get<double>(), 0.73258, 1e-5);
  EXPECT_NEAR(gate["interval"][1].get<double>(), 0.76784, 1e-5);
  EXPECT_EQ(gate["margin"], 0.97);
  EXPECT_EQ(gate["message"],
            "1k-512-c1: output throughput 115.2 → 86.4 tok/s, candidate/baseline ratio 0.750 "
            "[0.733, 0.768] (90 % interval, 3 rounds, 1 boot an arm, boot noise 1 % assumed; "
            "higher is better), allowed loss 3 %: regression");
}

TEST(Golden, EmptyOutputsAreOverTheBudgetAndTheCaseHasNoGain) {
  const base::Json json = Verdict("empty_outputs");
  EXPECT_EQ(json["arms"]["candidate"]["requests"], 984);
  EXPECT_EQ(json["arms"]["candidate"]["failed"], 40);
  EXPECT_EQ(json["gates"][0]["finding"], "over_budget");
  EXPECT_NEAR(json["gates"][0]["estimate"].get<double>(), 40.0 / 984, 1e-9);
  EXPECT_EQ(json["gates"][1]["finding"], "failures_in_case");
  EXPECT_EQ(json["cases"][0]["ratio"]["output_tokens_per_s"], nullptr);
  EXPECT_NEAR(json["cases"][1]["ratio"]["output_tokens_per_s"]["estimate"].get<double>(), 1.5,
              1e-7);
}

TEST(Golden, TheArticlesNumbersComeOut) {
  const base::Json json = Verdict("article");
  EXPECT_EQ(json["arms"]["baseline"]["requests"], 984);
  EXPECT_EQ(json["arms"]["baseline"]["failures"]["empty_output"], 6);
  EXPECT_EQ(json["arms"]["candidate"]["requests"], 984);
  EXPECT_EQ(json["arms"]["candidate"]["failures"]["empty_output"], 11);
  EXPECT_NEAR(json["gates"][0]["estimate"].get<double>(), 2.226, 1e-6);
  const base::Json& small = json["gates"][1];
  EXPECT_NEAR(small["cases"][0]["baseline"].get<double>(), 115.00, 1e-4);
  EXPECT_NEAR(small["cases"][0]["candidate"].get<double>(), 113.69, 1e-4);
  EXPECT_NEAR(small["estimate"].get<double>(), 113.69 / 115, 1e-6);
  // s = 0.0075: 2.920·0.0075/√3 = 0.01264; √(0.01264² + 0.02326²) = 0.02648.
  EXPECT_NEAR(small["interval"][0].get<double>(), 0.96278, 1e-4);
  EXPECT_NEAR(small["interval"][1].get<double>(), 1.01513, 1e-4);
  EXPECT_EQ(small["finding"], "undecided");
  EXPECT_NEAR(json["gates"][3]["estimate"].get<double>(), 0.372, 1e-6);
  EXPECT_NEAR(json["gates"][4]["interval"][1].get<double>(), 0.0184, 5e-5);
}

}  // namespace
}  // namespace upgrade_gate::gates
