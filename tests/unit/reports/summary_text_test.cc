#include "reports/text/summary_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "framework/base/text.h"
#include "tests/unit/reports/hand_values.h"

namespace upgrade_gate::text {
namespace {

using reports_test::ExpectGolden;
using reports_test::HandJudgement;
using reports_test::HandPlan;
using reports_test::HandSummary;
using reports_test::kHostile;
using testing::HasSubstr;
using testing::Not;

TextOptions Options() {
  return {.color = Color::kNever, .run = "/srv/runs/h20 upgrade", .plan_file = "plans/gate.yaml"};
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::size_t WidestOf(const std::string& text) {
  std::size_t widest = 0;
  for (const std::string& line : LinesOf(text)) {
    widest = std::max(widest, base::DisplayWidth(line));
  }
  return widest;
}

std::string LineWith(const std::string& text, const std::string& part) {
  for (const std::string& line : LinesOf(text)) {
    if (line.find(part) != std::string::npos) return line;
  }
  return "";
}

TEST(SummaryText, RejectedRunIsShownWhole) {
  const std::string out = RenderSummary(HandPlan(), HandSummary(), HandJudgement(), Options());
  ExpectGolden("summary-reject.txt", out);
  EXPECT_LE(WidestOf(out), 110U);
}

TEST(SummaryText, IncompleteRunSaysSoAndHowToGoOn) {
  auto judgement = HandJudgement();
  judgement.decision = gates::Decision::kInconclusive;
  judgement.reason = "the run did not do what the plan says";
  judgement.complete = false;
  judgement.rejudged = true;
  judgement.incidents = {"boot 02 (candidate): service lost",
                         "1k-128-c32: 1 of 3 rounds is missing"};
  judgement.gates.erase(judgement.gates.begin() + 1, judgement.gates.begin() + 4);
  judgement.candidate_identity.clear();
  auto summary = HandSummary();
  summary.boots[1].stopped = evidence::StopReason::kServiceLost;
  summary.boots[1].stop_detail = "exit code 139";
  summary.cases[2].arms["candidate"].rounds[1].stopped = evidence::StopReason::kServiceLost;
  summary.cases[2].arms["candidate"].rounds[1].counts.requests = 40;
  summary.cases[2].arms["candidate"].superseded_rounds = 2;
  auto plan = HandPlan();
  ExpectGolden("summary-incomplete.txt", RenderSummary(plan, summary, judgement, Options()));
}

TEST(SummaryText, FailingGatesComeFirstAndPassingOnesLast) {
  const std::string out = RenderSummary(HandPlan(), HandSummary(), HandJudgement(), Options());
  const std::size_t fail = out.find("failures.candidate  gate.yaml");
  const std::size_t open = out.find("throughput.single_stream  gate.yaml");
  const std::size_t advisory = out.find("latency.high_load.ttft  gate.yaml");
  const std::size_t pass = out.find("throughput.8k-256-c8  gate.yaml");
  ASSERT_NE(fail, std::string::npos);
  EXPECT_LT(fail, open);
  EXPECT_LT(open, advisory);
  EXPECT_LT(advisory, pass);
  EXPECT_NE(pass, std::string::npos);
  EXPECT_THAT(out, HasSubstr("upgrade-gate explain '/srv/runs/h20 upgrade' failures.candidate"));
}

TEST(SummaryText, PercentileOfFewValuesIsCalledTheirMaximum) {
  const std::string out = RenderSummary(HandPlan(), HandSummary(), HandJudgement(), Options());
  EXPECT_THAT(out, HasSubstr("max of 16"));
  EXPECT_THAT(out, HasSubstr("max of 8"));
  EXPECT_THAT(out, HasSubstr("P95 of 59–64"));
}

TEST(SummaryText, NineteenValuesAreAMaximumAndTwentyAreNot) {
  auto summary = HandSummary();
  for (auto& [arm, rounds] : summary.cases[0].arms) {
    for (auto& round : rounds.rounds) {
      for (auto& [metric, latency] : round.latency) latency.count = 19;
    }
  }
  EXPECT_THAT(RenderSummary(HandPlan(), summary, HandJudgement(), Options()),
              HasSubstr("max of 19"));
  for (auto& [arm, rounds] : summary.cases[0].arms) {
    for (auto& round : rounds.rounds) {
      for (auto& [metric, latency] : round.latency) latency.count = 20;
    }
  }
  EXPECT_THAT(RenderSummary(HandPlan(), summary, HandJudgement(), Options()),
              HasSubstr("P95 of 20"));
}

TEST(SummaryText, CaseWithAFailureGetsADaggerAndNoGain) {
  const std::string line = LineWith(
      RenderSummary(HandPlan(), HandSummary(), HandJudgement(), Options()), "1k-128-c32 †");
  EXPECT_THAT(line, HasSubstr("no gain"));
  EXPECT_THAT(line, Not(HasSubstr("×")));
  EXPECT_THAT(line, HasSubstr("2/128"));
  EXPECT_THAT(line, HasSubstr("6/128"));
}

TEST(SummaryText, LevelThatWasNotRunIsShownAsNotRun) {
  const std::string line =
      LineWith(RenderSummary(HandPlan(), HandSummary(), HandJudgement(), Options()), "open-0.48");
  EXPECT_THAT(line, HasSubstr("not run"));
}

TEST(SummaryText, PlanWithoutABaselineHasNoRollback) {
  auto plan = HandPlan();
  plan.arms.erase(plan.arms.begin());
  const std::string out = RenderSummary(plan, HandSummary(), HandJudgement(), Options());
  EXPECT_THAT(LineWith(out, "  baseline  "), HasSubstr("none in this plan"));
  EXPECT_THAT(out, Not(HasSubstr("roll back to")));
}

TEST(SummaryText, RunWithoutRequestsIsNotShownAsFailureFree) {
  const std::string out = RenderSummary(HandPlan(), {}, HandJudgement(), Options());
  EXPECT_THAT(LineWith(out, "requests       "), HasSubstr("NONE was sent"));
  EXPECT_THAT(out, Not(HasSubstr("0.00 %")));
}

TEST(SummaryText, TextFromOutsideCannotActOnATerminalOrACiSystem) {
  auto judgement = HandJudgement();
  judgement.gates[2].message = std::string(kHostile) + "\n::error::pwned\n##vso[task.complete]done";
  judgement.reason = "::set-output name=x::y";
  judgement.conditions = {std::string("a\r\n::warning::b ") + kHostile};
  judgement.not_covered = {std::string(200, 'x') + " ::add-mask::z"};
  judgement.incidents = {"##[command]rm", "##teamcity[buildStatus]"};
  judgement.complete = false;
  auto summary = HandSummary();
  summary.capture.host = kHostile;
  summary.boots[0].version = "\x1b]0;title\x07";
  const std::string out = RenderSummary(HandPlan(), summary, judgement, Options());
  EXPECT_TRUE(base::IsValidUtf8(out));
  EXPECT_EQ(base::Visible(out, true), out);
  for (const std::string& line : LinesOf(out)) {
    const std::size_t start = line.find_first_not_of(" \t");
    EXPECT_FALSE(start != std::string::npos && line.substr(start, 2) == "::") << line;
    EXPECT_THAT(line, Not(HasSubstr("##vso[")));
    EXPECT_THAT(line, Not(HasSubstr("##[")));
    EXPECT_THAT(line, Not(HasSubstr("##teamcity[")));
  }
  EXPECT_THAT(out, HasSubstr("\\::error::pwned"));
}

TEST(SummaryText, ColourIsOnlyWrittenWhenAskedFor) {
  auto options = Options();
  EXPECT_THAT(RenderSummary(HandPlan(), HandSummary(), HandJudgement(), options),
              Not(HasSubstr("\x1b")));
  options.color = Color::kAlways;
  const std::string out = RenderSummary(HandPlan(), HandSummary(), HandJudgement(), options);
  EXPECT_THAT(out, HasSubstr("\x1b[1;31mREJECT\x1b[0m"));
  EXPECT_THAT(out, HasSubstr("\x1b[1;32mPASS"));
}

TEST(SummaryText, LongMessageWrapsWithAHangingIndent) {
  auto judgement = HandJudgement();
  judgement.gates[2].message.clear();
  for (int i = 0; i < 60; ++i) judgement.gates[2].message += "word" + std::to_string(i) + " ";
  const std::string out = RenderSummary(HandPlan(), HandSummary(), judgement, Options());
  EXPECT_LE(WidestOf(out), 110U);
  const std::string second = LineWith(out, "word30 ");
  EXPECT_EQ(second.find("word"), 16U);
}

TEST(ExplanationText, ShowsNumbersThresholdAndWhatToDo) {
  ExpectGolden("explanation.txt", RenderExplanation(HandJudgement().gates[1], Options()));
}

TEST(VerdictEnv, HoldsWordsAndDigestsOnly) {
  EXPECT_EQ(
      RenderVerdictEnv(HandJudgement()),
      "UPGRADE_GATE_DECISION=reject\n"
      "UPGRADE_GATE_EXIT_CODE=10\n"
      "UPGRADE_GATE_CANDIDATE=9c1e4f20ab310000000000000000000000000000000000000000000000000000\n"
      "UPGRADE_GATE_ROLLBACK=51d0be77c9020000000000000000000000000000000000000000000000000000\n"
      "UPGRADE_GATE_EVIDENCE=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
      "UPGRADE_GATE_PLAN=bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n"
      "UPGRADE_GATE_ORCHESTRATION=complete\n"
      "UPGRADE_GATE_REJUDGED=no\n"
      "UPGRADE_GATE_GATES_FAILED=1\n"
      "UPGRADE_GATE_GATES_INCONCLUSIVE=1\n"
      "UPGRADE_GATE_GATES_PASSED=2\n"
      "UPGRADE_GATE_ADVISORIES_NOT_PASSED=1\n");
}

TEST(VerdictEnv, DecisionAndExitCodeAgree) {
  auto judgement = HandJudgement();
  judgement.decision = gates::Decision::kAccept;
  EXPECT_THAT(RenderVerdictEnv(judgement),
              HasSubstr("DECISION=accept\nUPGRADE_GATE_EXIT_CODE=0\n"));
  judgement.decision = gates::Decision::kInconclusive;
  EXPECT_THAT(RenderVerdictEnv(judgement),
              HasSubstr("DECISION=inconclusive\nUPGRADE_GATE_EXIT_CODE=11\n"));
}

TEST(VerdictEnv, LeavesOutWhatIsNotADigest) {
  auto judgement = HandJudgement();
  judgement.candidate_identity = "$(reboot)";
  judgement.rollback_identity = "";
  judgement.evidence = std::string(63, 'a') + "\n";
  const std::string out = RenderVerdictEnv(judgement);
  EXPECT_THAT(out, HasSubstr("UPGRADE_GATE_CANDIDATE=\n"));
  EXPECT_THAT(out, HasSubstr("UPGRADE_GATE_ROLLBACK=\n"));
  EXPECT_THAT(out, HasSubstr("UPGRADE_GATE_EVIDENCE=\n"));
  EXPECT_THAT(out, Not(HasSubstr("$")));
}

TEST(NeutralizeCommands, BreaksWhatCiSystemsObeyAndNothingElse) {
  EXPECT_EQ(base::NeutralizeCommands("::error::a\n \t::b\nc ::d"), "\\::error::a\n \t\\::b\nc ::d");
  EXPECT_EQ(base::NeutralizeCommands("x ##vso[a] ##[b] ##teamcity[c] ## [d]"),
            "x #\\#vso[a] #\\#[b] #\\#teamcity[c] ## [d]");
  EXPECT_EQ(base::NeutralizeCommands("a [[ATTACHMENT|/etc/passwd]]"),
            "a [\\[ATTACHMENT|/etc/passwd]]");
  EXPECT_EQ(base::NeutralizeCommands("std::string: ok [[ATTACHMENTS]]"),
            "std::string: ok [[ATTACHMENTS]]");
}

TEST(ShellWord, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(base::ShellWord("/srv/a-b_c.d"), "/srv/a-b_c.d");
  EXPECT_EQ(base::ShellWord("a b"), "'a b'");
  EXPECT_EQ(base::ShellWord("$(x)'y"), "'$(x)'\\''y'");
  EXPECT_EQ(base::ShellWord(""), "''");
}

}  // namespace
}  // namespace upgrade_gate::text
