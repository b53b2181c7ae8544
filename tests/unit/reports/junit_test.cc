#include "reports/junit/junit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tinyxml2.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "framework/base/text.h"
#include "tests/unit/reports/hand_values.h"

namespace upgrade_gate::junit {
namespace {

using reports_test::AcceptedJudgement;
using reports_test::ExpectGolden;
using reports_test::HandJudgement;
using reports_test::HandPlan;
using reports_test::HandSummary;
using reports_test::HostileInput;
using reports_test::HostileTexts;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

JunitOptions Options() {
  return {.suite_name = "deepseek-v41-flash-h20x8",
          .plan_file = "plans/gate.yaml",
          .timestamp = "2026-10-27T01:45:00.000Z",
          .hostname = "node-a1"};
}

std::string Render(const gates::Judgement& judgement,
                   const std::vector<std::string>& missing = {}) {
  return RenderJunit(HandPlan(), HandSummary(), judgement, missing, Options());
}

// What a reader makes of a file.
struct Case {
  std::map<std::string, std::string> attributes;
  std::map<std::string, std::string> properties;
  std::vector<std::string> outcomes;  // element names
  std::string message;                // of the outcome
  std::string story;                  // its text
  std::string output;
};
struct Parsed {
  std::map<std::string, std::string> root;   // attributes
  std::map<std::string, std::string> suite;  // likewise
  std::map<std::string, std::string> properties;
  std::vector<Case> cases;

  const Case& Find(const std::string& name) const {
    for (const Case& of : cases) {
      if (of.attributes.at("name") == name) return of;
    }
    throw std::out_of_range("no testcase " + name);
  }
  int Count(const std::string& outcome) const {
    return static_cast<int>(std::count_if(cases.begin(), cases.end(), [&](const Case& of) {
      return of.outcomes == std::vector{outcome};
    }));
  }
};

std::map<std::string, std::string> Attributes(const tinyxml2::XMLElement& element) {
  std::map<std::string, std::string> attributes;
  for (const auto* at = element.FirstAttribute(); at != nullptr; at = at->Next()) {
    attributes[at->Name()] = at->Value();
  }
  return attributes;
}

std::map<std::string, std::string> Properties(const tinyxml2::XMLElement& parent) {
  std::map<std::string, std::string> properties;
  const auto* list = parent.FirstChildElement("properties");
  if (list == nullptr) return properties;
  for (const auto* of = list->FirstChildElement(); of != nullptr; of = of->NextSiblingElement()) {
    properties.emplace(of->Attribute("name"), of->Attribute("value"));
  }
  return properties;
}

std::string TextOf(const tinyxml2::XMLElement& element) {
  return element.GetText() == nullptr ? "" : element.GetText();
}

Parsed Parse(const std::string& xml) {
  tinyxml2::XMLDocument document;
  if (document.Parse(xml.data(), xml.size()) != tinyxml2::XML_SUCCESS) {
    throw std::runtime_error(std::string("not XML: ") + document.ErrorStr());
  }
  Parsed parsed;
  const auto* suite = document.RootElement()->FirstChildElement("testsuite");
  parsed.root = Attributes(*document.RootElement());
  parsed.suite = Attributes(*suite);
  parsed.properties = Properties(*suite);
  for (const auto* test = suite->FirstChildElement("testcase"); test != nullptr;
       test = test->NextSiblingElement("testcase")) {
    Case& of = parsed.cases.emplace_back();
    of.attributes = Attributes(*test);
    of.properties = Properties(*test);
    for (const char* outcome : {"failure", "error", "skipped"}) {
      const auto* element = test->FirstChildElement(outcome);
      if (element == nullptr) continue;
      of.outcomes.emplace_back(outcome);
      of.message = element->Attribute("message");
      of.story = TextOf(*element);
    }
    const auto* output = test->FirstChildElement("system-out");
    if (output != nullptr) of.output = TextOf(*output);
  }
  return parsed;
}

// The names of the testcases whose outcome is the element `outcome`.
std::vector<std::string> CasesWith(const std::string& xml, const std::string& outcome) {
  std::vector<std::string> names;
  for (const Case& of : Parse(xml).cases) {
    if (of.outcomes == std::vector{outcome}) names.push_back(of.attributes.at("name"));
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
  const std::string xml = Render(AcceptedJudgement());
  EXPECT_FALSE(IsRed(xml));
  EXPECT_THAT(CasesWith(xml, "skipped"), IsEmpty());
  EXPECT_THAT(xml, HasSubstr("tests=\"7\" failures=\"0\" errors=\"0\""));
}

TEST(Junit, GateWhoseTestLeftNoResultFailsEvenIfItWouldPass) {
  const std::string xml = Render(AcceptedJudgement(), {"provenance"});
  EXPECT_THAT(CasesWith(xml, "failure"), ElementsAre("gate.provenance"));
}

TEST(Junit, AdvisoryGateWithoutAResultFailsToo) {
  EXPECT_THAT(CasesWith(Render(AcceptedJudgement(), {"latency.high_load.ttft"}), "failure"),
              ElementsAre("gate.latency.high_load.ttft"));
}

TEST(Junit, GateOfThePlanThatWasNotJudgedFails) {
  auto judgement = AcceptedJudgement();
  judgement.gates.pop_back();
  EXPECT_THAT(CasesWith(Render(judgement), "failure"), ElementsAre("gate.provenance"));
}

TEST(Junit, NoGatesIsRed) {
  auto judgement = AcceptedJudgement();
  judgement.gates.clear();
  auto plan = HandPlan();
  plan.gates.clear();
  EXPECT_THAT(CasesWith(RenderJunit(plan, HandSummary(), judgement, {}, Options()), "error"),
              ElementsAre("run.decision"));
}

TEST(Junit, DecisionOtherThanAcceptIsNeverGreen) {
  auto judgement = AcceptedJudgement();
  judgement.decision = gates::Decision::kInconclusive;
  EXPECT_THAT(CasesWith(Render(judgement), "error"), ElementsAre("run.decision"));
}

TEST(Junit, IncompleteOrchestrationIsAnErrorOfItsOwn) {
  auto judgement = AcceptedJudgement();
  judgement.complete = false;
  judgement.incidents = {"boot 02 (candidate): service lost"};
  const std::string xml = Render(judgement);
  EXPECT_THAT(CasesWith(xml, "error"), ElementsAre("run.orchestration"));
  EXPECT_THAT(xml, HasSubstr("boot 02 (candidate): service lost"));
}

TEST(Junit, RunWithoutARequestIsAnError) {
  EXPECT_THAT(CasesWith(RenderJunit(HandPlan(), {}, AcceptedJudgement(), {}, Options()), "error"),
              ElementsAre("run.requests"));
}

TEST(Junit, SecondGateOfOneIdDoesNotHideARedDecision) {
  auto judgement = AcceptedJudgement();
  judgement.gates.push_back(HandJudgement().gates[2]);
  judgement.decision = gates::Decision::kReject;
  EXPECT_TRUE(IsRed(Render(judgement)));
}

TEST(Junit, HostileTextStaysWellFormed) {
  for (const std::string& text : HostileTexts()) {
    SCOPED_TRACE(base::Visible(text.substr(0, 80)));
    auto input = HostileInput(text);
    for (const bool attach : {false, true}) {
      if (attach) input.options.attachments = text;
      const std::string xml =
          RenderJunit(input.plan, input.summary, input.judgement, input.missing, input.options);
      ExpectLegalXmlText(xml);
      EXPECT_THAT(xml, testing::Not(HasSubstr("]]>")));
      // Five gates, one that was not judged, one that only the missing fragments
      // name, and two of the run.
      const Parsed parsed = Parse(xml);
      EXPECT_EQ(parsed.cases.size(), 9U);
      EXPECT_TRUE(IsRed(xml));
      EXPECT_LT(xml.size(), std::size_t{30} << 20);
    }
    const std::string broken = RenderBroken(text, input.options);
    ExpectLegalXmlText(broken);
    EXPECT_THAT(CasesWith(broken, "failure"), ElementsAre("run.broken"));
  }
}

TEST(Junit, TextThatHarmsNobodyIsReadBackAsItWas) {
  const std::string text = "a < b && c > \"d\" 'e' ]]> Grüße † 1.5× 日本 \U0001f600";
  auto judgement = HandJudgement();
  judgement.gates[2].message = text;
  judgement.gates[2].explanation = {"  indented", "second\tline"};
  const Case of = Parse(Render(judgement)).Find("gate.failures.candidate");
  EXPECT_EQ(of.properties.at("message"), text);
  EXPECT_EQ(of.message, text + " | indented | second\\x09line");
  EXPECT_EQ(of.story, text + "\n  indented\nsecond\tline");
}

// A server's answer that names a file would have CI publish that file.
TEST(Junit, TextCannotAttachAFileOrCommandALog) {
  auto judgement = AcceptedJudgement();
  judgement.incidents = {"[[ATTACHMENT|/etc/passwd]]"};
  judgement.gates[0].message = "[[ATTACHMENT|/etc/passwd]]";
  judgement.gates[1].verdict = gates::Verdict::kFail;
  judgement.gates[1].message = "x\n::error::[[ATTACHMENT|/etc/passwd]]\n##vso[x]";
  const Parsed parsed = Parse(Render(judgement));
  EXPECT_EQ(parsed.Find("run.orchestration").output, "[\\[ATTACHMENT|/etc/passwd]]");
  EXPECT_EQ(parsed.Find("gate.throughput.8k-256-c8").output, "[\\[ATTACHMENT|/etc/passwd]]");
  const Case& failed = parsed.Find("gate.throughput.single_stream");
  EXPECT_THAT(failed.story, HasSubstr("x\n\\::error::[\\[ATTACHMENT|/etc/passwd]]\n#\\#vso[x]\n"));
  EXPECT_THAT(failed.message, testing::Not(HasSubstr("[[ATTACHMENT")));
}

TEST(Junit, EachGateAttachesItsExplanationAndTheRunItsSummary) {
  auto options = Options();
  options.attachments = "/ci/run/report";
  auto judgement = HandJudgement();
  judgement.incidents = {"boot 02 is a resume"};
  const Parsed parsed = Parse(
      RenderJunit(HandPlan(), HandSummary(), judgement, {"throughput.single_stream"}, options));
  std::map<std::string, std::string> attached;
  for (const Case& of : parsed.cases) attached[of.attributes.at("name")] = of.output;
  EXPECT_EQ(attached.at("run.orchestration"), "[[ATTACHMENT|/ci/run/report/summary.txt]]");
  EXPECT_THAT(attached.at("run.requests"), HasSubstr("candidate: 6 of 192"));
  for (const gates::GateResult& gate : judgement.gates) {
    EXPECT_EQ(attached.at("gate." + gate.id),
              "[[ATTACHMENT|/ci/run/report/gates/" + gate.id + ".txt]]");
  }
  EXPECT_EQ(parsed.Find("run.orchestration").properties.at("orchestration.incident.1"),
            "boot 02 is a resume");
  EXPECT_EQ(parsed.Find("gate.provenance").properties.at("message"), judgement.gates[4].message);

  options.attachments = "";  // the report's folder is the project
  EXPECT_EQ(Parse(RenderBroken("x", options)).Find("run.broken").output,
            "[[ATTACHMENT|summary.txt]]");
}

// The plan has this gate and the judgement does not: it has no explanation.
TEST(Junit, GateWithoutAnExplanationAttachesNothing) {
  auto options = Options();
  options.attachments = "/ci/run/report";
  auto judgement = HandJudgement();
  judgement.gates.pop_back();
  const auto parsed = Parse(RenderJunit(HandPlan(), HandSummary(), judgement, {}, options));
  EXPECT_EQ(parsed.Find("gate.provenance").output, "");
}

TEST(Junit, OrchestrationAndRequestsAreTwoLinesOfTheirOwn) {
  auto judgement = HandJudgement();
  EXPECT_EQ(Parse(Render(judgement)).properties.at("orchestration"), "complete");
  EXPECT_EQ(Parse(Render(judgement)).properties.at("requests"), "400 formal, 8 failed");
  judgement.complete = false;
  EXPECT_EQ(Parse(Render(judgement)).properties.at("orchestration"), "incomplete");
}

// Some readers keep one value a name.
TEST(Junit, NoPropertyHasTheNameOfAnother) {
  auto judgement = HandJudgement();
  judgement.incidents = {"one", "two"};
  const std::string xml = Render(judgement);
  tinyxml2::XMLDocument document;
  ASSERT_EQ(document.Parse(xml.c_str()), tinyxml2::XML_SUCCESS);
  const auto* suite = document.RootElement()->FirstChildElement("testsuite");
  const auto check = [](const tinyxml2::XMLElement& parent) {
    std::size_t there = 0;
    for (const auto* of = parent.FirstChildElement("properties")->FirstChildElement();
         of != nullptr; of = of->NextSiblingElement()) {
      ++there;
    }
    EXPECT_EQ(Properties(parent).size(), there) << parent.Attribute("name");
  };
  check(*suite);
  for (const auto* test = suite->FirstChildElement("testcase"); test != nullptr;
       test = test->NextSiblingElement("testcase")) {
    check(*test);
  }
}

TEST(Junit, TimesAddUpToTheCapture) {
  const Parsed parsed = Parse(Render(HandJudgement()));
  EXPECT_EQ(parsed.suite.at("time"), "4740.000");  // 01:45 to 03:04
  EXPECT_EQ(parsed.root.at("time"), "4740.000");
  EXPECT_EQ(parsed.Find("run.requests").attributes.at("time"), "157.500");  // 15 rounds
  EXPECT_EQ(parsed.Find("run.orchestration").attributes.at("time"), "4582.500");
  EXPECT_EQ(parsed.Find("gate.provenance").attributes.at("time"), "0.000");
}

// A clock that was set back in between, or a time that is not known.
TEST(Junit, TimeOfTheOrchestrationIsNeverNegative) {
  for (const char* sealed : {"2026-10-27T01:44:00.000Z", ""}) {
    auto summary = HandSummary();
    summary.capture.sealed_at = sealed;
    const Parsed parsed = Parse(RenderJunit(HandPlan(), summary, HandJudgement(), {}, Options()));
    EXPECT_EQ(parsed.Find("run.orchestration").attributes.at("time"), "0.000");
    EXPECT_EQ(parsed.suite.at("time"), "157.500");
  }
}

TEST(Junit, DecisionThatDoesNotCountIsRedFirstAndNoAccept) {
  auto options = Options();
  options.obstacle = "sealed at 2026-10-27T03:04:00.000Z: older than 1h\ncapture anew";
  const std::string xml = RenderJunit(HandPlan(), HandSummary(), AcceptedJudgement(), {}, options);
  const Parsed parsed = Parse(xml);
  EXPECT_THAT(CasesWith(xml, "failure"), ElementsAre("run.broken"));
  EXPECT_EQ(parsed.cases[0].attributes.at("name"), "run.broken");
  EXPECT_EQ(parsed.cases.size(), 8U);
  EXPECT_EQ(parsed.properties.at("decision"), "inconclusive");
  EXPECT_EQ(parsed.properties.at("reason"),
            "sealed at 2026-10-27T03:04:00.000Z: older than 1h | capture anew");
}

struct Kind {
  gates::Verdict verdict;
  plan::Severity severity;
  bool missing;
};

TEST(Junit, CountsAreThoseOfTheTestCasesForEveryMix) {
  std::vector<Kind> kinds;
  for (const auto verdict :
       {gates::Verdict::kPass, gates::Verdict::kFail, gates::Verdict::kInconclusive}) {
    for (const auto severity : {plan::Severity::kRequired, plan::Severity::kAdvisory}) {
      for (const bool missing : {false, true}) kinds.push_back({verdict, severity, missing});
    }
  }
  int mixes = 0;
  for (const Kind& first : kinds) {
    for (const Kind& second : kinds) {
      for (const bool complete : {true, false}) {
        for (const char* obstacle : {"", "too old"}) {
          auto judgement = AcceptedJudgement();
          judgement.complete = complete;
          std::vector<std::string> missing;
          bool fails = false;
          bool open = !complete;
          for (std::size_t i : {std::size_t{0}, std::size_t{1}}) {
            const Kind& kind = i == 0 ? first : second;
            judgement.gates[i].verdict = kind.verdict;
            judgement.gates[i].severity = kind.severity;
            if (kind.missing) missing.push_back(judgement.gates[i].id);
            if (kind.severity == plan::Severity::kAdvisory) continue;
            fails = fails || kind.verdict == gates::Verdict::kFail;
            open = open || kind.verdict == gates::Verdict::kInconclusive;
          }
          judgement.decision = fails  ? gates::Decision::kReject
                               : open ? gates::Decision::kInconclusive
                                      : gates::Decision::kAccept;
          auto options = Options();
          options.obstacle = obstacle;
          const std::string xml =
              RenderJunit(HandPlan(), HandSummary(), judgement, missing, options);
          const Parsed parsed = Parse(xml);
          std::set<std::pair<std::string, std::string>> names;
          for (const Case& of : parsed.cases) {
            EXPECT_LE(of.outcomes.size(), 1U);
            names.emplace(of.attributes.at("classname"), of.attributes.at("name"));
          }
          EXPECT_EQ(names.size(), parsed.cases.size());
          for (const auto& counted : {parsed.root, parsed.suite}) {
            EXPECT_EQ(counted.at("tests"), std::to_string(parsed.cases.size()));
            EXPECT_EQ(counted.at("failures"), std::to_string(parsed.Count("failure")));
            EXPECT_EQ(counted.at("errors"), std::to_string(parsed.Count("error")));
            EXPECT_EQ(counted.at("skipped"), std::to_string(parsed.Count("skipped")));
          }
          EXPECT_EQ(IsRed(xml), judgement.decision != gates::Decision::kAccept ||
                                    !missing.empty() || *obstacle != '\0');
          ++mixes;
        }
      }
    }
  }
  EXPECT_EQ(mixes, 576);
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
