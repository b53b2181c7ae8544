#include "framework/gates/facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/gates/findings.h"
#include "framework/gates/judge.h"
#include "tests/unit/gates/experiment.h"

namespace upgrade_gate::gates {
namespace {

using evidence::Fact;
using evidence::FactState;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Fact Present(const std::string& name, const std::string& value, bool compared = true) {
  return {name, FactState::kPresent, value, "log line 7", compared};
}
Fact Absent(const std::string& name) {
  return {name, FactState::kAbsent, "", "log line 7, and no line tells of it"};
}
Fact Unknown(const std::string& name) {
  return {name, FactState::kUnknown, "", "no line of the log tells"};
}

struct FactsTest : ::testing::Test {
  Experiment e = MakeExperiment();

  void Set(const std::vector<Fact>& baseline, const std::vector<Fact>& candidate) {
    e.Boot(1).facts = baseline;
    e.Boot(2).facts = candidate;
  }
  void Declare(const std::string& from, const std::string& to) {
    e.plan.expected_changes = {{"replay", from, to, "on by default"}};
  }
  GateResult Judge() { return JudgeGate(e.plan, Provenance(), e.evidence.summary); }
  std::vector<std::string> Lines() { return FactLines(e.plan, e.evidence.summary); }
  void ExpectProblem(Finding finding, Verdict verdict, const std::string& sentence) {
    const auto problems = FindFactProblems(e.plan, e.evidence.summary, e.plan.Select({}));
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_EQ(problems[0].finding, finding);
    EXPECT_EQ(problems[0].sentence, sentence);
    const GateResult result = Judge();
    EXPECT_EQ(result.verdict, verdict);
    EXPECT_EQ(result.finding, finding);
    EXPECT_EQ(result.message, "1 problem: " + sentence);
    // The numbers stand: relative gates are judged all the same.
    EXPECT_FALSE(RowOf(finding).voids_relative);
    EXPECT_FALSE(RowOf(finding).voids_level);
    const GateResult loss = JudgeGate(e.plan, MaxLoss("1k-512-c1", 3), e.evidence.summary);
    EXPECT_EQ(loss.verdict, Verdict::kPass) << loss.message;
  }
};

TEST_F(FactsTest, TheSamePathPassesAndSaysHowManyFactsWereCompared) {
  Set({Present("attention", "FA3"), Absent("replay")},
      {Present("attention", "FA3"), Absent("replay")});
  const GateResult result = Judge();
  EXPECT_EQ(result.verdict, Verdict::kPass) << result.message;
  EXPECT_THAT(result.message, HasSubstr("1 case, 2 facts): pass"));
  EXPECT_THAT(
      result.explanation,
      Contains("  execution path: 2 facts of both arms compared; boots/*/facts.json has them all"));
  EXPECT_THAT(Lines(), IsEmpty());
}

TEST_F(FactsTest, AnUndeclaredDifferenceFailsAndTheNumbersStand) {
  Set({Present("attention", "FA3")}, {Present("attention", "FLASHINFER")});
  ExpectProblem(Finding::kPathDiffers, Verdict::kFail,
                "attention: FA3 in baseline, FLASHINFER in candidate, which expected_changes does "
                "not declare");
}

TEST_F(FactsTest, AbsentIsNotAValueNamedAbsent) {
  Set({Absent("attention")}, {Present("attention", "absent")});
  ExpectProblem(Finding::kPathDiffers, Verdict::kFail,
                "attention: absent in baseline, absent in candidate, which expected_changes does "
                "not declare");
}

TEST_F(FactsTest, WhatDiffersByNatureIsNotCompared) {
  Set({Present("version", "0.31", false)}, {Present("version", "0.32", false)});
  EXPECT_EQ(Judge().verdict, Verdict::kPass);
  EXPECT_EQ(ComparedFacts(e.plan, e.evidence.summary, e.plan.Select({})), 0);
}

TEST_F(FactsTest, UnknownIsNeverTheSame) {
  Set({Present("attention", "FA3"), Unknown("dtype")}, {Unknown("attention"), Unknown("dtype")});
  EXPECT_EQ(Judge().verdict, Verdict::kPass);  // nothing differs, and the report says what is open
  EXPECT_THAT(Lines(),
              ElementsAre("attention is FA3 in baseline and not known of candidate (no line "
                          "of the log tells): whether it is the same is open",
                          "not known of either arm, so not compared: dtype"));
  EXPECT_EQ(ComparedFacts(e.plan, e.evidence.summary, e.plan.Select({})), 0);
}

TEST_F(FactsTest, AFactThatOneArmDoesNotHaveIsUnknownThere) {
  Set({Present("attention", "FA3")}, {Present("dtype", "fp8")});
  EXPECT_EQ(Judge().verdict, Verdict::kPass);
  EXPECT_THAT(Lines(), Contains(HasSubstr("attention is FA3 in baseline and not known of candidate "
                                          "(no rule or command gives it)")));
}

TEST_F(FactsTest, ADeclaredChangeThatCameTrueIsACondition) {
  Declare("absent", "enabled");
  Set({Absent("replay")}, {Present("replay", "enabled")});
  EXPECT_EQ(Judge().verdict, Verdict::kPass);
  EXPECT_THAT(Lines(),
              ElementsAre("declared change: replay: absent → enabled: on by default (found so)"));
}

TEST_F(FactsTest, ADeclaredChangeThatDidNotComeTrueFails) {
  Declare("absent", "enabled");
  Set({Present("replay", "enabled")}, {Present("replay", "enabled")});
  ExpectProblem(Finding::kChangeMissed, Verdict::kFail,
                "replay: declared absent → enabled, found enabled → enabled");
  EXPECT_THAT(Lines(), ElementsAre("declared change: replay: absent → enabled: on by default (a "
                                   "declared change did not come true)"));
}

TEST_F(FactsTest, AKnownContradictionFailsWhateverTheOtherArmIs) {
  Declare("absent", "enabled");
  Set({Unknown("replay")}, {Absent("replay")});
  ExpectProblem(Finding::kChangeMissed, Verdict::kFail,
                "replay: declared absent → enabled, found unknown → absent");
}

TEST_F(FactsTest, ADeclaredChangeOfAnUnknownFactIsOpen) {
  Declare("absent", "enabled");
  Set({Unknown("replay")}, {Present("replay", "enabled")});
  ExpectProblem(
      Finding::kChangeUnproved, Verdict::kInconclusive,
      "replay: declared absent → enabled, but it is not known of baseline (no line of the "
      "log tells)");
}

TEST_F(FactsTest, ADeclaredChangeWithoutAnyFactsIsOpen) {
  Declare("absent", "enabled");
  ExpectProblem(Finding::kChangeUnproved, Verdict::kInconclusive,
                "replay: declared absent → enabled, but it is not known of baseline (no facts were "
                "recorded)");
  EXPECT_THAT(Lines(), ElementsAre("declared change: replay: absent → enabled: on by default"));
}

TEST_F(FactsTest, BootsOfOneArmThatDifferFail) {
  AddBoot(e, kBaseline, 3);
  Set({Present("attention", "FA3")}, {Present("attention", "FA3")});
  e.Boot(3).facts = {Present("attention", "FLASHINFER")};
  ExpectProblem(Finding::kPathDiffers, Verdict::kFail,
                "attention differs between boots of baseline: FA3 in boot 1, FLASHINFER in boot 3");
}

TEST_F(FactsTest, ABootThatDoesNotTellLeavesItsArmUnknown) {
  AddBoot(e, kBaseline, 3);
  Set({Present("attention", "FA3")}, {Present("attention", "FA3")});
  EXPECT_EQ(Judge().verdict, Verdict::kPass);
  EXPECT_THAT(Lines(),
              Contains(HasSubstr("not known of baseline (not among the facts of boot 3)")));
}

TEST_F(FactsTest, AStallOfALogIsACondition) {
  e.Boot(2).warnings = {{"stall", 3, 12, "no answer for 60 s", "a worker hangs"}};
  EXPECT_THAT(Lines(), ElementsAre("the log of boot 2 (candidate) warns of a stall (3 times, the "
                                   "first at line 12): a worker hangs"));
}

TEST_F(FactsTest, HostileValuesAreOneVisibleLine) {
  Set({Present("attention", "a\n::error::x\x1b[31m")},
      {Present("attention", std::string(9'000, 'b'))});
  const std::string message = Judge().message;
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  EXPECT_THAT(message, Not(HasSubstr("\x1b")));
  EXPECT_LT(message.size(), 2'000U);
}

TEST_F(FactsTest, AHostThatWasChangedBetweenBootsIsAnother) {
  e.Boot(1).host_facts = {Present("cpu_governor", "performance")};
  e.Boot(2).host_facts = {Present("cpu_governor", "powersave")};
  const GateResult result = Judge();
  EXPECT_EQ(result.verdict, Verdict::kFail);
  EXPECT_EQ(result.finding, Finding::kHostsDiffer);
  EXPECT_EQ(
      result.message,
      "1 problem: 1k-512-c1: the host was changed between boots: cpu_governor: performance in "
      "boot 1 and powersave in boot 2");
  EXPECT_EQ(JudgeGate(e.plan, MaxLoss("1k-512-c1", 3), e.evidence.summary).verdict,
            Verdict::kInconclusive);
}

TEST_F(FactsTest, WhatOfTheHostIsUnknownOrChangesAnywayIsNotCompared) {
  e.Boot(1).host_facts = {Present("memory_available_mib", "1", false), Unknown("cpu_governor")};
  e.Boot(2).host_facts = {Present("memory_available_mib", "2", false),
                          Present("cpu_governor", "x")};
  EXPECT_EQ(Judge().verdict, Verdict::kPass);
}

TEST_F(FactsTest, ARoundOnAThrottledGpuIsNotValid) {
  e.Round("1k-512-c1", kCandidate, 1).throttled = "GPU 0: thermal slowdown after the round";
  const GateResult loss = JudgeGate(e.plan, MaxLoss("1k-512-c1", 3), e.evidence.summary);
  EXPECT_EQ(loss.verdict, Verdict::kInconclusive);
  EXPECT_EQ(loss.finding, Finding::kThrottled);
  EXPECT_THAT(loss.message, HasSubstr("round 2 of boot 2 (candidate): GPU 0: thermal slowdown"));
  EXPECT_EQ(JudgeGate(e.plan, MinThroughput("1k-512-c1", 1), e.evidence.summary).verdict,
            Verdict::kInconclusive);
}

}  // namespace
}  // namespace upgrade_gate::gates
