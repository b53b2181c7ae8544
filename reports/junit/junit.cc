#include "reports/junit/junit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tinyxml2.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "framework/base/clock.h"
#include "framework/base/text.h"

namespace upgrade_gate::junit {
namespace {

// Readers cap a file at 30 MB; one message never comes near.
constexpr std::size_t kLongestText = 32'000;

constexpr const char* kSummary = "summary.txt";

enum class Outcome { kPassed, kFailure, kError, kSkipped };

struct TestCase {
  std::string name;
  int line = 0;
  double seconds = 0;
  std::vector<std::pair<std::string, std::string>> properties;
  Outcome outcome = Outcome::kPassed;
  std::string type;
  std::vector<std::string> story;  // first the one-line message
  std::vector<std::string> output;
  std::string attachment;  // in the report's folder; instead of `output` where they are on
};

struct Suite {
  std::vector<std::pair<std::string, std::string>> properties;
  std::vector<TestCase> cases;
};

// tinyxml2 lets control characters and broken UTF-8 through, and both make the
// whole file unreadable.
std::string Attribute(std::string_view text) {
  return base::Visible(base::Shorten(text, kLongestText));
}

// Text that readers print into a log or search for attachments.
std::string Body(const std::vector<std::string>& lines) {
  const std::string whole = fmt::format("{}", fmt::join(lines, "\n"));
  return base::NeutralizeCommands(base::Visible(base::Shorten(whole, kLongestText), true));
}

// The same for an attribute, in which readers turn every line break into a blank.
std::string OneLine(const std::vector<std::string>& lines) {
  std::string out;
  bool line_start = false;  // indentation says nothing here
  for (const char c : base::Shorten(fmt::format("{}", fmt::join(lines, "\n")), kLongestText)) {
    if (c == '\n') {
      if (!line_start) out += " | ";
      line_start = true;
    } else if (!line_start || c != ' ') {
      out += c;
      line_start = false;
    }
  }
  return base::NeutralizeCommands(out);
}

// Six significant digits, in no locale: all digits are in verdict.json. Never
// given to tinyxml2 as a number, which prints it through the locale.
std::string Number(double value) {
  if (!std::isfinite(value)) return "";
  return std::abs(value) < 1e6 ? fmt::format("{:.6g}", value) : fmt::format("{:.0f}", value);
}
std::string Number(std::int64_t value) {
  return fmt::format("{}", value);
}
std::string Seconds(double value) {
  return fmt::format("{:.3f}", std::isfinite(value) && value > 0 ? value : 0.0);
}

class Writer {
 public:
  explicit Writer(const JunitOptions& options) : options_(options) {
    document_.InsertEndChild(document_.NewDeclaration());
  }

  std::string Write(const Suite& suite) {
    const auto count = [&](Outcome outcome) {
      return Number(static_cast<std::int64_t>(
          std::count_if(suite.cases.begin(), suite.cases.end(),
                        [&](const TestCase& test) { return test.outcome == outcome; })));
    };
    double seconds = 0;
    for (const TestCase& test : suite.cases) seconds += test.seconds;
    auto* root = document_.NewElement("testsuites");
    document_.InsertEndChild(root);
    auto* element = root->InsertNewChildElement("testsuite");
    for (auto* counted : {root, element}) {
      Set(counted, "name", options_.suite_name);
      Set(counted, "tests", Number(static_cast<std::int64_t>(suite.cases.size())));
      Set(counted, "failures", count(Outcome::kFailure));
      Set(counted, "errors", count(Outcome::kError));
      Set(counted, "skipped", count(Outcome::kSkipped));
      Set(counted, "time", Seconds(seconds));
    }
    if (!options_.timestamp.empty()) Set(element, "timestamp", options_.timestamp);
    if (!options_.hostname.empty()) Set(element, "hostname", options_.hostname);
    AddProperties(element, suite.properties);
    for (const TestCase& test : suite.cases) AddCase(element, test);
    tinyxml2::XMLPrinter printer;
    document_.Print(&printer);
    return printer.CStr();
  }

 private:
  static void Set(tinyxml2::XMLElement* element, const char* name, std::string_view value) {
    element->SetAttribute(name, Attribute(value).c_str());
  }

  static void AddProperties(tinyxml2::XMLElement* parent,
                            const std::vector<std::pair<std::string, std::string>>& properties) {
    if (properties.empty()) return;
    auto* list = parent->InsertNewChildElement("properties");
    for (const auto& [name, value] : properties) {
      auto* property = list->InsertNewChildElement("property");
      Set(property, "name", name);
      Set(property, "value", value);
    }
  }

  void AddCase(tinyxml2::XMLElement* suite, const TestCase& test) {
    auto* element = suite->InsertNewChildElement("testcase");
    Set(element, "classname", options_.suite_name);
    Set(element, "name", test.name);
    Set(element, "time", Seconds(test.seconds));
    if (!options_.plan_file.empty()) {
      Set(element, "file", options_.plan_file);
      if (test.line > 0) Set(element, "line", Number(std::int64_t{test.line}));
    }
    AddProperties(element, test.properties);
    if (test.outcome != Outcome::kPassed) {
      auto* result = element->InsertNewChildElement(test.outcome == Outcome::kFailure ? "failure"
                                                    : test.outcome == Outcome::kError ? "error"
                                                                                      : "skipped");
      if (test.outcome != Outcome::kSkipped) Set(result, "type", test.type);
      // Some readers show only the message, some only the text.
      Set(result, "message", OneLine(test.story));
      result->SetText(Body(test.story).c_str());
    }
    if (options_.attachments && !test.attachment.empty()) {
      // Alone: Jenkins cuts a long system-out in the middle, GitLab takes the first.
      const auto path = *options_.attachments / test.attachment;
      element->InsertNewChildElement("system-out")
          ->SetText(fmt::format("[[ATTACHMENT|{}]]", base::Visible(path.string())).c_str());
    } else if (!test.output.empty()) {
      element->InsertNewChildElement("system-out")->SetText(Body(test.output).c_str());
    }
  }

  const JunitOptions& options_;
  tinyxml2::XMLDocument document_;
};

// Some readers keep one value a name.
void AddNumbered(std::vector<std::pair<std::string, std::string>>& properties,
                 std::string_view name, const std::vector<std::string>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    properties.emplace_back(fmt::format("{}.{}", name, i + 1), values[i]);
  }
}

double SecondsOfRounds(const evidence::Summary& summary) {
  double seconds = 0;
  for (const evidence::CaseSummary& of : summary.cases) {
    for (const auto& [name, arm] : of.arms) {
      for (const evidence::RoundSummary& round : arm.rounds) seconds += round.duration_s;
    }
  }
  return seconds;
}

// Of the capture, by the wall clock; 0 where the evidence does not know.
double WallSeconds(const evidence::CaptureRecord& capture) {
  base::WallTime started;
  base::WallTime sealed;
  if (!base::ParseUtc(capture.started_at, started) || !base::ParseUtc(capture.sealed_at, sealed)) {
    return 0;
  }
  return std::chrono::duration<double>(sealed - started).count();
}

TestCase OrchestrationCase(const evidence::Summary& summary, const gates::Judgement& judgement) {
  TestCase test;
  test.name = "run.orchestration";
  test.seconds = std::max(0.0, WallSeconds(summary.capture) - SecondsOfRounds(summary));
  test.attachment = kSummary;
  test.properties.emplace_back("orchestration", judgement.complete ? "complete" : "incomplete");
  AddNumbered(test.properties, "orchestration.incident", judgement.incidents);
  if (judgement.complete) {
    test.output = judgement.incidents;
    return test;
  }
  test.outcome = Outcome::kError;
  test.type = "orchestration";
  test.story.push_back(
      "the run did not do what the plan says; the same capture command measures anew");
  test.story.insert(test.story.end(), judgement.incidents.begin(), judgement.incidents.end());
  return test;
}

// Informative: failed requests are the gates' business.
TestCase RequestsCase(const evidence::Summary& summary) {
  TestCase test;
  test.name = "run.requests";
  test.seconds = SecondsOfRounds(summary);
  std::int64_t formal = 0;
  std::int64_t failed = 0;
  for (const auto& [name, arm] : summary.arms) {
    formal += arm.counts.requests;
    failed += arm.counts.failed();
  }
  test.properties.emplace_back("requests", fmt::format("{} formal, {} failed", formal, failed));
  for (const auto& [name, arm] : summary.arms) {
    const std::string prefix = "requests." + name + ".";
    test.properties.emplace_back(prefix + "formal", Number(std::int64_t{arm.counts.requests}));
    test.properties.emplace_back(prefix + "failed", Number(std::int64_t{arm.counts.failed()}));
    std::vector<std::string> kinds;
    for (const auto& [kind, count] : arm.counts.by_kind) {
      test.properties.emplace_back(fmt::format("{}failed.{}", prefix, evidence::Name(kind)),
                                   Number(std::int64_t{count}));
      kinds.push_back(fmt::format("{} {}", evidence::Name(kind), count));
    }
    test.output.push_back(fmt::format("{}: {} of {} formal requests failed{}{}", name,
                                      arm.counts.failed(), arm.counts.requests,
                                      kinds.empty() ? "" : ": ", base::JoinList(kinds)));
  }
  if (formal == 0) {
    test.outcome = Outcome::kError;
    test.type = "nothing_ran";
    test.story.push_back("no formal request was sent: there is nothing to judge");
  }
  return test;
}

void AddNumbers(TestCase& test, const gates::GateResult& gate) {
  const auto add = [&](const std::string& name, const std::optional<double>& value) {
    if (value && std::isfinite(*value)) test.properties.emplace_back(name, Number(*value));
  };
  const auto add_interval = [&](const std::string& prefix,
                                const std::optional<gates::Interval>& interval) {
    if (!interval) return;
    add(prefix + "interval.lower", interval->lower);
    add(prefix + "interval.upper", interval->upper);
  };
  test.properties.emplace_back("gate", gate.id);
  test.properties.emplace_back("kind", std::string(plan::Name(gate.kind)));
  test.properties.emplace_back("severity", std::string(plan::Name(gate.severity)));
  test.properties.emplace_back("verdict", std::string(gates::Name(gate.verdict)));
  test.properties.emplace_back("finding", std::string(gates::Name(gate.finding)));
  test.properties.emplace_back("message", gate.message);
  add("estimate", gate.estimate);
  add_interval("", gate.interval);
  add("margin", gate.margin);
  test.properties.emplace_back("rounds", Number(std::int64_t{gate.rounds}));
  test.properties.emplace_back("boots", Number(std::int64_t{gate.boots}));
  for (const gates::CaseResult& of : gate.cases) {
    const std::string prefix = of.case_name + ".";
    test.properties.emplace_back(prefix + "verdict", std::string(gates::Name(of.verdict)));
    add(prefix + "baseline", of.baseline);
    add(prefix + "candidate", of.candidate);
    add(prefix + "estimate", of.estimate);
    add_interval(prefix, of.interval);
  }
}

TestCase NoResult(const std::string& id, std::string why) {
  TestCase test;
  test.name = "gate." + id;
  test.outcome = Outcome::kFailure;
  test.type = "no_result";
  test.story.push_back(std::move(why));
  return test;
}

TestCase GateCase(const gates::GateResult& gate) {
  TestCase test;
  test.name = "gate." + gate.id;
  AddNumbers(test, gate);
  if (gate.verdict == gates::Verdict::kPass) {
    test.output.push_back(gate.message);
    return test;
  }
  const bool failed = gate.verdict == gates::Verdict::kFail;
  if (gate.severity == plan::Severity::kAdvisory) {
    test.outcome = Outcome::kSkipped;
    test.story.push_back(fmt::format("advisory, {}: {}", gates::Name(gate.verdict), gate.message));
  } else {
    test.outcome = failed ? Outcome::kFailure : Outcome::kError;
    test.type = failed ? gates::Name(gate.finding) : gates::Name(gate.verdict);
    test.story.push_back(gate.message);
  }
  // The gate's own message is that of the case that decides.
  if (gate.cases.size() > 1) {
    for (const gates::CaseResult& of : gate.cases) test.story.push_back(of.message);
  }
  test.story.insert(test.story.end(), gate.explanation.begin(), gate.explanation.end());
  return test;
}

// An obstacle that no other testcase shows.
TestCase BrokenCase(const std::string& message) {
  TestCase test;
  test.name = "run.broken";
  test.outcome = Outcome::kFailure;
  test.type = "broken";
  test.attachment = kSummary;
  test.story.push_back(message);
  return test;
}

std::vector<std::pair<std::string, std::string>> SuiteProperties(const evidence::Summary& summary,
                                                                 const gates::Judgement& judgement,
                                                                 const TestCase& orchestration,
                                                                 const TestCase& requests,
                                                                 const std::string& obstacle) {
  // As verdict.env: a decision that does not count is none.
  const auto decision = obstacle.empty() ? judgement.decision : gates::Decision::kInconclusive;
  std::vector<std::pair<std::string, std::string>> properties = {
      {"decision", std::string(gates::Name(decision))},
      {"reason", obstacle.empty() ? judgement.reason : OneLine({obstacle})},
  };
  for (const TestCase* test : {&orchestration, &requests}) {
    properties.insert(properties.end(), test->properties.begin(), test->properties.end());
  }
  const std::vector<std::pair<std::string, std::string>> identity = {
      {"rejudged", judgement.rejudged ? "true" : "false"},
      {"evidence", judgement.evidence},
      {"plan", judgement.plan_sha256},
      {"candidate", judgement.candidate_identity},
      {"rollback", judgement.rollback_identity},
      {"workload", summary.capture.workload},
      {"client", summary.capture.client_sha256},
  };
  properties.insert(properties.end(), identity.begin(), identity.end());
  AddNumbered(properties, "condition", judgement.conditions);
  AddNumbered(properties, "not_covered", judgement.not_covered);
  return properties;
}

bool Contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

std::string RenderJunit(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                        const gates::Judgement& judgement,
                        const std::vector<std::string>& missing_fragments,
                        const JunitOptions& options) {
  const TestCase orchestration = OrchestrationCase(summary, judgement);
  const TestCase requests = RequestsCase(summary);
  Suite suite;
  suite.properties = SuiteProperties(summary, judgement, orchestration, requests, options.obstacle);
  // Elsewhere the obstacle is red already, where it belongs.
  if (!options.obstacle.empty() && judgement.complete && missing_fragments.empty()) {
    suite.cases.push_back(BrokenCase(options.obstacle));
  }
  suite.cases.push_back(orchestration);
  suite.cases.push_back(requests);
  std::vector<std::string> reported;
  for (const gates::GateResult& gate : judgement.gates) {
    // Readers drop the second of two cases with one name, red or not.
    if (Contains(reported, gate.id)) continue;
    reported.push_back(gate.id);
    TestCase test = Contains(missing_fragments, gate.id)
                        ? NoResult(gate.id,
                                   "this gate's own test left no result for this evidence: it did "
                                   "not run, or it ended early")
                        : GateCase(gate);
    test.line = gate.location.line;
    test.attachment = "gates/" + gate.id + ".txt";
    suite.cases.push_back(std::move(test));
  }
  std::vector<std::string> unjudged = missing_fragments;
  for (const plan::Gate& gate : plan.gates) unjudged.push_back(gate.id);
  for (const std::string& id : unjudged) {
    if (Contains(reported, id)) continue;
    reported.push_back(id);
    suite.cases.push_back(NoResult(id, "the plan has this gate, and the judgement does not"));
  }
  // Nothing passes by absence: a decision other than accept is never a green file.
  const bool red = std::any_of(suite.cases.begin(), suite.cases.end(), [](const TestCase& test) {
    return test.outcome == Outcome::kFailure || test.outcome == Outcome::kError;
  });
  if (!red && (judgement.decision != gates::Decision::kAccept || judgement.gates.empty())) {
    TestCase test;
    test.name = "run.decision";
    test.outcome = Outcome::kError;
    test.type =
        judgement.gates.empty() ? "nothing_ran" : std::string(gates::Name(judgement.decision));
    test.story.push_back(judgement.gates.empty() ? "no gate was judged" : judgement.reason);
    suite.cases.push_back(std::move(test));
  }
  return Writer(options).Write(suite);
}

std::string RenderBroken(const std::string& message, const JunitOptions& options) {
  Suite suite;
  suite.cases.push_back(BrokenCase(message));
  return Writer(options).Write(suite);
}

}  // namespace upgrade_gate::junit
