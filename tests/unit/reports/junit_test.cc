#include "reports/junit/junit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tinyxml2.h>

#include <limits>
#include <locale>
#include <map>

#include "framework/base/text.h"
#include "tests/unit/reports/hand_values.h"

namespace upgrade_gate::junit {
namespace {

using reports_test::ExpectGolden;
using reports_test::HandJudgement;
using reports_test::HandPlan;
using reports_test::HandSummary;
using reports_test::kHostile;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

JunitOptions Options() {
  return {.suite_name = "deepseek-v41-flash-h20x8",
          .plan_file = "plans/gate.yaml",
          .timestamp = "2026-10-27T03:04:00.000Z",
          .hostname = "node-a1"};
}

std::string Render(const gates::Judgement& judgement,
                   const std::vector<std::string>& missing = {}) {
  return RenderJunit(HandPlan(), HandSummary(), judgement, missing, Options());
}

// The names of the testcases whose outcome is the element `outcome`.
std::vector<std::string> CasesWith(const std::string& xml, const char* outcome) {
  tinyxml2::XMLDocument document;
  EXPECT_EQ(document.Parse(xml.data(), xml.size()), tinyxml2::XML_SUCCESS) << xml;
  std::vector<std::string> names;
  const auto* suite = document.RootElement()->FirstChildElement("testsuite");
  for (const auto* test = suite->FirstChildElement("testcase"); test != nullptr;
       test = test->NextSiblingElement("testcase")) {
    if (test->FirstChildElement(outcome) != nullptr) names.emplace_back(test->Attribute("name"));
  }
  return names;
}

bool IsRed(const std::string& xml) {
  return !CasesWith(xml, "failure").empty() || !CasesWith(xml, "error").empty();
}

// XML 1.0, section 2.2: what no escaping makes legal.
void ExpectLegalXmlText(const std::string& xml) {
  EXPECT_TRUE(base::IsValidUtf8(xml));
  EXPECT_EQ(base::Visible(xml, true), xml);
  for (int c = 0; c < 32; ++c) {
    if (c == '\t' || c == '\n' || c == '\r') continue;
    EXPECT_THAT(xml, testing::Not(HasSubstr("&#" + std::to_string(c) + ";")));
  }
}

gates::Judgement AllPass() {
  auto judgement = HandJudgement();
  judgement.decision = gates::Decision::kAccept;
  for (auto& gate : judgement.gates) {
    gate.verdict = gates::Verdict::kPass;
    gate.finding = gates::Finding::kNone;
  }
  return judgement;
}

TEST(Junit, RejectedRunIsShownWhole) {
  ExpectGolden("junit-reject.xml", Render(HandJudgement()));
}

TEST(Junit, BrokenRunIsOneFailingTestCase) {
  ExpectGolden(
      "junit-broken.xml",
      RenderBroken("evidence/summary.json: changed since it was sealed\ncapture again", Options()));
}

TEST(Junit, OutcomesFollowVerdictAndSeverity) {
  const std::string xml = Render(HandJudgement());
  EXPECT_THAT(CasesWith(xml, "failure"), ElementsAre("gate.failures.candidate"));
  EXPECT_THAT(CasesWith(xml, "error"), ElementsAre("gate.throughput.single_stream"));
  EXPECT_THAT(CasesWith(xml, "skipped"), ElementsAre("gate.latency.high_load.ttft"));
}

TEST(Junit, AcceptedRunHasNoRedCase) {
  const std::string xml = Render(AllPass());
  EXPECT_FALSE(IsRed(xml));
  EXPECT_THAT(CasesWith(xml, "skipped"), IsEmpty());
  EXPECT_THAT(xml, HasSubstr("tests=\"7\" failures=\"0\" errors=\"0\""));
}

TEST(Junit, GateWhoseTestLeftNoResultFailsEvenIfItWouldPass) {
  const std::string xml = Render(AllPass(), {"provenance"});
  EXPECT_THAT(CasesWith(xml, "failure"), ElementsAre("gate.provenance"));
}

TEST(Junit, AdvisoryGateWithoutAResultFailsToo) {
  EXPECT_THAT(CasesWith(Render(AllPass(), {"latency.high_load.ttft"}), "failure"),
              ElementsAre("gate.latency.high_load.ttft"));
}

TEST(Junit, GateOfThePlanThatWasNotJudgedFails) {
  auto judgement = AllPass();
  judgement.gates.pop_back();
  EXPECT_THAT(CasesWith(Render(judgement), "failure"), ElementsAre("gate.provenance"));
}

TEST(Junit, NoGatesIsRed) {
  auto judgement = AllPass();
  judgement.gates.clear();
  auto plan = HandPlan();
  plan.gates.clear();
  EXPECT_THAT(CasesWith(RenderJunit(plan, HandSummary(), judgement, {}, Options()), "error"),
              ElementsAre("run.decision"));
}

TEST(Junit, DecisionOtherThanAcceptIsNeverGreen) {
  auto judgement = AllPass();
  judgement.decision = gates::Decision::kInconclusive;
  EXPECT_THAT(CasesWith(Render(judgement), "error"), ElementsAre("run.decision"));
}

TEST(Junit, IncompleteOrchestrationIsAnErrorOfItsOwn) {
  auto judgement = AllPass();
  judgement.complete = false;
  judgement.incidents = {"boot 02 (candidate): service lost"};
  const std::string xml = Render(judgement);
  EXPECT_THAT(CasesWith(xml, "error"), ElementsAre("run.orchestration"));
  EXPECT_THAT(xml, HasSubstr("boot 02 (candidate): service lost"));
}

TEST(Junit, RunWithoutARequestIsAnError) {
  EXPECT_THAT(CasesWith(RenderJunit(HandPlan(), {}, AllPass(), {}, Options()), "error"),
              ElementsAre("run.requests"));
}

TEST(Junit, SecondGateOfOneIdDoesNotHideARedDecision) {
  auto judgement = AllPass();
  judgement.gates.push_back(HandJudgement().gates[2]);
  judgement.decision = gates::Decision::kReject;
  EXPECT_TRUE(IsRed(Render(judgement)));
}

TEST(Junit, HostileTextStaysWellFormed) {
  auto judgement = HandJudgement();
  for (auto& gate : judgement.gates) {
    gate.message = kHostile;
    gate.explanation = {kHostile, std::string("nul \0 inside", 12)};
  }
  judgement.reason = kHostile;
  judgement.conditions = {kHostile};
  auto options = Options();
  options.suite_name = kHostile;
  options.hostname = kHostile;
  options.plan_file = kHostile;
  const std::string xml = RenderJunit(HandPlan(), HandSummary(), judgement, {kHostile}, options);
  ExpectLegalXmlText(xml);
  EXPECT_THAT(xml, testing::Not(HasSubstr("]]>")));
  EXPECT_TRUE(IsRed(xml));
  const std::string broken = RenderBroken(kHostile, options);
  ExpectLegalXmlText(broken);
  EXPECT_THAT(CasesWith(broken, "failure"), ElementsAre("run.broken"));
}

// German digits: 1.234,5
class GermanNumbers : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(Junit, NumbersDoNotFollowTheLocale) {
  const std::string before = Render(HandJudgement());
  const std::locale old = std::locale::global(std::locale(std::locale(), new GermanNumbers));
  const std::string german = Render(HandJudgement());
  std::locale::global(old);
  EXPECT_EQ(german, before);
}

TEST(Junit, NumbersThatAreNotFiniteAreLeftOut) {
  auto judgement = HandJudgement();
  judgement.gates[0].estimate = std::numeric_limits<double>::quiet_NaN();
  judgement.gates[0].interval = {0.5, std::numeric_limits<double>::infinity()};
  const std::string xml = Render(judgement);
  EXPECT_THAT(xml, testing::Not(HasSubstr("\"nan")));
  EXPECT_THAT(xml, testing::Not(HasSubstr("\"inf\"")));
}

TEST(Junit, LineOfTheGateInThePlanIsGiven) {
  EXPECT_THAT(Render(HandJudgement()),
              HasSubstr("name=\"gate.failures.candidate\" time=\"0.000\" file=\"plans/gate.yaml\" "
                        "line=\"43\""));
}

}  // namespace
}  // namespace upgrade_gate::junit
