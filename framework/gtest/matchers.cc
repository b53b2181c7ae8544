#include "framework/gtest/matchers.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "framework/base/digest.h"
#include "framework/base/text.h"
#include "framework/gates/findings.h"
#include "framework/gates/judge.h"
#include "framework/gates/provenance.h"
#include "framework/gates/wording.h"
#include "framework/gtest/session.h"

namespace upgrade_gate::gtest {
namespace {

using gates::CaseResult;
using gates::Finding;
using gates::Verdict;

// --- words

std::string Words(Percent percent) {
  return gates::PercentText(percent.value);
}
std::string Words(TokensPerSecond rate) {
  std::string text = base::ToString(rate);
  return text.insert(text.size() - std::string_view("tok/s").size(), " ");
}
std::string Words(std::chrono::microseconds limit) {
  return gates::Number(static_cast<double>(limit.count()) / 1000.0) + " ms";
}
std::string Words(const ArmPair& pair) {
  return "case " + base::Visible(pair.case_name) + ", candidate against baseline";
}
std::string Words(const MeasuredArm& arm) {
  return "arm " + base::Visible(arm.name) +
         (arm.case_name ? " in case " + base::Visible(*arm.case_name) : " over all its cases");
}

// --- what is asked

struct Asked {
  std::string what;       // "output throughput gain at least 50 %"
  std::string threshold;  // "demanded +50 %"
  std::string unit;       // of the numbers
  std::optional<Percent> confidence;
  std::string impossible;  // why the bound itself is not one; empty: it is
};

std::string RangeProblem(double value, double least, double below, Percent confidence) {
  if (!(confidence.value > 50.0 && confidence.value < 100.0)) {
    return "a confidence of " + Words(confidence) + " is not above 50 % and below 100 %";
  }
  if (value >= least && value < below) return {};
  return "a bound of " + gates::Number(value) + " is not at least " + gates::Number(least) +
         " and below " + gates::Number(below);
}

Evaluation CannotTell(Finding finding, std::string why) {
  Evaluation evaluation;
  evaluation.result.verdict = Verdict::kInconclusive;
  evaluation.result.finding = finding;
  evaluation.result.reason = std::move(why);
  return evaluation;
}

// The numbers as a person reads them out:
// "base=100.0 ms cand=108.0 ms (+8.0 % [+6.9, +9.2]), allowed +5 %".
std::string RatioText(const CaseResult& result, const Asked& asked) {
  const auto shown = [&](const std::optional<double>& value) {
    return value ? gates::Value(*value) + " " + asked.unit : std::string("not measured");
  };
  std::string text = "base=" + shown(result.baseline) + " cand=" + shown(result.candidate);
  if (result.estimate) {
    text += " (" + gates::Change(*result.estimate);
    if (result.interval) {
      text += " [" + gates::SignedPercent(result.interval->lower) + ", " +
              gates::SignedPercent(result.interval->upper) + "]";
    }
    text += ")";
  }
  return text + ", " + asked.threshold;
}

// "measured 253.8 tok/s [249.1, 258.6], demanded 900 tok/s"
std::string LevelText(const CaseResult& result, const Asked& asked) {
  std::string text = "not measured";
  if (result.candidate) text = "measured " + gates::Value(*result.candidate) + " " + asked.unit;
  if (result.interval) {
    text += " [" + gates::Value(result.interval->lower) + ", " +
            gates::Value(result.interval->upper) + "]";
  }
  return text + ", " + asked.threshold;
}

// --- judging

template <typename Subject>
class GateMatcher : public testing::MatcherInterface<const Subject&> {
 public:
  using Judge = std::function<Evaluation(const Subject&, Session&)>;
  GateMatcher(Asked asked, Judge judge) : asked_(std::move(asked)), judge_(std::move(judge)) {}

  bool MatchAndExplain(const Subject& subject,
                       testing::MatchResultListener* listener) const override {
    Session* session = Session::Current();
    if (session == nullptr) {
      *listener << "inconclusive: there is no evidence here; the gate binary runs this test with "
                   "--plan, --run and --gate";
      return false;
    }
    Evaluation evaluation = asked_.impossible.empty()
                                ? judge_(subject, *session)
                                : CannotTell(Finding::kUndecided, asked_.impossible);
    session->Look();
    const Verdict verdict = evaluation.result.verdict;
    const std::string said =
        (verdict == Verdict::kInconclusive ? "inconclusive: " : "") + evaluation.result.reason;
    evaluation.result.message = Words(subject) + ", " + asked_.what + ": " + said;
    *listener << said;
    session->Record(std::move(evaluation), listener->IsInterested());
    return verdict == Verdict::kPass;
  }
  void DescribeTo(std::ostream* out) const override {
    *out << asked_.what;
    if (asked_.confidence) *out << ", with " << Words(*asked_.confidence) << " confidence";
  }
  void DescribeNegationTo(std::ostream* out) const override {
    *out << "not ";
    DescribeTo(out);
  }

 private:
  Asked asked_;
  Judge judge_;
};

template <typename Subject>
testing::Matcher<const Subject&> Make(Asked asked, typename GateMatcher<Subject>::Judge judge) {
  return testing::Matcher<const Subject&>(
      new GateMatcher<Subject>(std::move(asked), std::move(judge)));
}

// Nothing if the plan has the case; a typo must not look like a case without numbers.
std::optional<Evaluation> MissingCase(const std::string& name, const Session& session) {
  if (session.plan().FindCase(name) != nullptr) return std::nullopt;
  std::vector<std::string> names;
  for (const plan::Case& of : session.plan().workload.cases) names.push_back(of.name);
  return CannotTell(Finding::kNotMeasured, "the plan has no case \"" + base::Visible(name) + "\"" +
                                               base::DidYouMean(name, names));
}

std::optional<Evaluation> MissingArm(const std::string& name, const Session& session) {
  if (session.plan().FindArm(name) != nullptr) return std::nullopt;
  std::vector<std::string> names;
  for (const plan::Arm& arm : session.plan().arms) names.push_back(arm.name);
  return CannotTell(Finding::kNotMeasured, "the plan has no arm \"" + base::Visible(name) + "\"" +
                                               base::DidYouMean(name, names));
}

using Rule = decltype(plan::Gate::rule);

gates::GateResult JudgeRule(Rule rule, std::optional<std::string> case_name, Session& session) {
  plan::Gate gate;
  gate.id = "expectation";
  gate.selection.case_name = std::move(case_name);
  gate.rule = std::move(rule);
  return gates::JudgeGate(session.plan(), gate, session.Look());
}

// A throughput or latency rule in one case.
template <typename Text>
Evaluation JudgeCase(Rule rule, const std::string& case_name, Text text, const Asked& asked,
                     Session& session) {
  gates::GateResult judged = JudgeRule(std::move(rule), case_name, session);
  if (judged.cases.size() != 1) return CannotTell(Finding::kNotMeasured, judged.message);
  Evaluation evaluation;
  evaluation.result = judged.cases.front();
  evaluation.margin = judged.margin;
  evaluation.explanation = std::move(judged.explanation);
  evaluation.result.reason = text(evaluation.result, asked) + ": " + evaluation.result.reason;
  return evaluation;
}

PairMatcher Relative(Asked asked, Rule rule) {
  return Make<ArmPair>(asked, [asked, rule](const ArmPair& pair, Session& session) {
    if (auto missing = MissingCase(pair.case_name, session)) return *missing;
    return JudgeCase(rule, pair.case_name, RatioText, asked, session);
  });
}

template <typename RuleOfArm>  // a rule with a member `arm`
ArmMatcher Level(Asked asked, RuleOfArm rule) {
  return Make<MeasuredArm>(asked, [asked, rule](const MeasuredArm& arm, Session& session) {
    if (auto missing = MissingArm(arm.name, session)) return *missing;
    if (!arm.case_name) {
      return CannotTell(Finding::kNotMeasured, "a level is one of a case: write Arm(\"" +
                                                   base::Visible(arm.name) + "\").In(\"…\")");
    }
    if (auto missing = MissingCase(*arm.case_name, session)) return *missing;
    RuleOfArm of = rule;
    of.arm = arm.name;
    return JudgeCase(of, *arm.case_name, LevelText, asked, session);
  });
}

PairMatcher ThroughputChange(std::string what, double change, Percent confidence,
                             std::string impossible) {
  plan::ThroughputGate rule;
  rule.confidence = confidence;
  // No loss at all is -0.
  if (std::signbit(change)) {
    rule.max_loss = Percent(std::abs(change));
  } else {
    rule.min_gain = Percent(change);
  }
  return Relative(
      {.what = std::move(what),
       .threshold = (change > 0 ? "demanded " : "allowed ") + gates::SignedPercentText(change),
       .unit = "tok/s",
       .confidence = confidence,
       .impossible = std::move(impossible)},
      rule);
}

std::string Title(evidence::Metric metric, Percentile percentile) {
  std::string name(evidence::Name(metric));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return "P" + std::to_string(static_cast<int>(percentile)) + " " + name;
}

PairMatcher LatencyIncrease(evidence::Metric metric, Percentile percentile,
                            UpperBound<Percent> increase) {
  plan::LatencyGate rule;
  rule.metric = metric;
  rule.percentile = static_cast<int>(percentile);
  rule.max_increase = increase.value;
  rule.confidence = increase.confidence;
  return Relative(
      {.what = Title(metric, percentile) + " increase at most " + Words(increase.value),
       .threshold = "allowed " + gates::SignedPercentText(increase.value.value),
       .unit = "ms",
       .confidence = increase.confidence,
       .impossible = RangeProblem(increase.value.value, -99.99, 1e6, increase.confidence)},
      rule);
}

ArmMatcher LatencyLevel(evidence::Metric metric, Percentile percentile,
                        UpperBound<std::chrono::microseconds> limit) {
  plan::LatencyGate rule;
  rule.metric = metric;
  rule.percentile = static_cast<int>(percentile);
  rule.max = limit.value;
  rule.confidence = limit.confidence;
  return Level({.what = Title(metric, percentile) + " at most " + Words(limit.value),
                .threshold = "allowed " + Words(limit.value),
                .unit = "ms",
                .confidence = limit.confidence,
                .impossible = RangeProblem(static_cast<double>(limit.value.count()), 1, 1e12,
                                           limit.confidence)},
               rule);
}

ArmMatcher FailureRate(const std::string& name, std::optional<evidence::FailureKind> kind,
                       UpperBound<Percent> rate) {
  plan::FailuresGate rule;
  rule.kind = kind;
  rule.max_rate = rate.value;
  rule.confidence = rate.confidence;
  return Make<MeasuredArm>({.what = name + " at most " + Words(rate.value),
                            .threshold = {},
                            .unit = {},
                            .confidence = rate.confidence,
                            .impossible = RangeProblem(rate.value.value, 0, 100, rate.confidence)},
                           [rule](const MeasuredArm& arm, Session& session) {
                             if (auto missing = MissingArm(arm.name, session)) return *missing;
                             if (arm.case_name) {
                               if (auto missing = MissingCase(*arm.case_name, session))
                                 return *missing;
                             }
                             plan::FailuresGate of = rule;
                             of.arm = arm.name;
                             gates::GateResult judged = JudgeRule(of, arm.case_name, session);
                             Evaluation evaluation;
                             evaluation.result.verdict = judged.verdict;
                             evaluation.result.finding = judged.finding;
                             evaluation.result.reason = std::move(judged.message);
                             evaluation.result.estimate = judged.estimate;
                             evaluation.result.interval = judged.interval;
                             evaluation.result.rounds = judged.rounds;
                             evaluation.result.boots = judged.boots;
                             evaluation.margin = judged.margin;
                             evaluation.explanation = std::move(judged.explanation);
                             return evaluation;
                           });
}

Evaluation JudgeInputs(const ArmPair& pair, Session& session) {
  if (auto missing = MissingCase(pair.case_name, session)) return *missing;
  const plan::Arm* baseline = session.plan().baseline();
  const plan::Arm* candidate = session.plan().candidate();
  if (baseline == nullptr || candidate == nullptr) {
    return CannotTell(Finding::kNotMeasured, "the plan has no baseline and candidate to compare");
  }
  Evaluation evaluation;
  evaluation.result.verdict = Verdict::kPass;
  evaluation.result.finding = Finding::kNone;
  evaluation.result.reason = "the request bodies are identical round by round";
  for (const gates::Problem& problem : gates::FindProblems(
           session.plan(), session.Look(), {session.plan().FindCase(pair.case_name)},
           {baseline->name, candidate->name})) {
    const bool of_inputs =
        problem.finding == Finding::kInputsDiffer || problem.finding == Finding::kInputsRepeated ||
        problem.finding == Finding::kNotMeasured || problem.finding == Finding::kNotRecorded;
    if (!of_inputs) continue;
    const Verdict verdict = gates::RowOf(problem.finding).verdict;
    evaluation.explanation.push_back(problem.sentence);
    // What differs is said before what is only unknown.
    if (evaluation.result.verdict != Verdict::kFail &&
        (verdict == Verdict::kFail || evaluation.result.verdict == Verdict::kPass)) {
      evaluation.result.verdict = verdict;
      evaluation.result.finding = problem.finding;
      evaluation.result.reason = problem.sentence;
    }
  }
  return evaluation;
}

Evaluation JudgePin(const MeasuredArm& arm, const std::string& wanted, Session& session) {
  if (auto missing = MissingArm(arm.name, session)) return *missing;
  if (arm.case_name) {
    if (auto missing = MissingCase(*arm.case_name, session)) return *missing;
  }
  std::vector<const plan::Case*> cases;
  for (const plan::Case& of : session.plan().workload.cases) {
    if (!arm.case_name || of.name == *arm.case_name) cases.push_back(&of);
  }
  const std::vector<int> boots = gates::UsedBoots(session.Look(), cases, {arm.name});
  if (boots.empty()) return CannotTell(Finding::kNotMeasured, "no boot of it measured anything");
  Evaluation evaluation;
  evaluation.result.verdict = Verdict::kPass;
  evaluation.result.finding = Finding::kNone;
  evaluation.result.boots = static_cast<int>(boots.size());
  for (const int number : boots) {
    const evidence::BootRecord* boot = session.Look().FindBoot(number);
    if (boot == nullptr) {
      return CannotTell(Finding::kNotRecorded,
                        "boot " + std::to_string(number) + ": there is no record of it");
    }
    std::string found;
    bool proved = false;
    bool open = boot->pins.empty();
    for (const evidence::BootRecord::Pin& pin : boot->pins) {
      open = open || pin.found.empty();
      proved = proved || (pin.found == wanted && pin.declared == pin.found);
      found += (found.empty() ? "" : ", ") + base::Visible(pin.name) + " " +
               (pin.found.empty() ? "not proved" : pin.found.substr(0, 12));
    }
    const std::string sentence =
        "boot " + std::to_string(number) + " ran " + (found.empty() ? "nothing pinned" : found);
    evaluation.explanation.push_back(sentence);
    if (proved || evaluation.result.verdict == Verdict::kFail) continue;
    evaluation.result.verdict = open ? Verdict::kInconclusive : Verdict::kFail;
    evaluation.result.finding = open ? Finding::kPinUnproved : Finding::kPinMismatch;
    evaluation.result.reason = sentence;
  }
  if (evaluation.result.verdict == Verdict::kPass) {
    evaluation.result.reason =
        std::to_string(boots.size()) + (boots.size() == 1 ? " boot was it" : " boots were all it");
  }
  return evaluation;
}

}  // namespace

void PrintTo(const ArmPair& pair, std::ostream* out) {
  *out << Words(pair);
}
void PrintTo(const MeasuredArm& arm, std::ostream* out) {
  *out << Words(arm);
}

PairMatcher OutputThroughputGain(LowerBound<Percent> gain) {
  return ThroughputChange("output throughput gain at least " + Words(gain.value), gain.value.value,
                          gain.confidence,
                          RangeProblem(gain.value.value, -99.99, 1e6, gain.confidence));
}
PairMatcher OutputThroughputLoss(UpperBound<Percent> loss) {
  return ThroughputChange("output throughput loss at most " + Words(loss.value), -loss.value.value,
                          loss.confidence, RangeProblem(loss.value.value, 0, 100, loss.confidence));
}
PairMatcher Ttft(Percentile percentile, UpperBound<Percent> increase) {
  return LatencyIncrease(evidence::Metric::kTtft, percentile, increase);
}
PairMatcher Tpot(Percentile percentile, UpperBound<Percent> increase) {
  return LatencyIncrease(evidence::Metric::kTpot, percentile, increase);
}
PairMatcher E2e(Percentile percentile, UpperBound<Percent> increase) {
  return LatencyIncrease(evidence::Metric::kE2e, percentile, increase);
}
PairMatcher SameInputs() {
  return Make<ArmPair>({.what = "the same inputs",
                        .threshold = {},
                        .unit = {},
                        .confidence = std::nullopt,
                        .impossible = {}},
                       JudgeInputs);
}

ArmMatcher OutputThroughput(LowerBound<TokensPerSecond> rate) {
  plan::ThroughputGate rule;
  rule.min = rate.value;
  rule.confidence = rate.confidence;
  return Level({.what = "output throughput at least " + Words(rate.value),
                .threshold = "demanded " + Words(rate.value),
                .unit = "tok/s",
                .confidence = rate.confidence,
                .impossible = RangeProblem(rate.value.value, 1e-9, 1e12, rate.confidence)},
               rule);
}
ArmMatcher Ttft(Percentile percentile, UpperBound<std::chrono::microseconds> limit) {
  return LatencyLevel(evidence::Metric::kTtft, percentile, limit);
}
ArmMatcher Tpot(Percentile percentile, UpperBound<std::chrono::microseconds> limit) {
  return LatencyLevel(evidence::Metric::kTpot, percentile, limit);
}
ArmMatcher E2e(Percentile percentile, UpperBound<std::chrono::microseconds> limit) {
  return LatencyLevel(evidence::Metric::kE2e, percentile, limit);
}

ArmMatcher EmptyOutputs(UpperBound<Percent> rate) {
  return FailureRate("empty outputs", evidence::FailureKind::kEmptyOutput, rate);
}
ArmMatcher Failures(UpperBound<Percent> rate) {
  return FailureRate("failures of any kind", std::nullopt, rate);
}
ArmMatcher Failures(evidence::FailureKind kind, UpperBound<Percent> rate) {
  return FailureRate("failures (" + std::string(evidence::Name(kind)) + ")", kind, rate);
}

ArmMatcher PinnedBy(std::string digest) {
  constexpr std::string_view kPrefix = "sha256:";
  if (digest.starts_with(kPrefix)) digest.erase(0, kPrefix.size());
  Asked asked{.what = "pinned by " + base::Visible(digest),
              .threshold = {},
              .unit = {},
              .confidence = std::nullopt,
              .impossible = base::IsSha256Hex(digest)
                                ? ""
                                : "\"" + base::Visible(digest) + "\" is not a SHA-256 digest"};
  return Make<MeasuredArm>(std::move(asked), [digest](const MeasuredArm& arm, Session& session) {
    return JudgePin(arm, digest, session);
  });
}

}  // namespace upgrade_gate::gtest

namespace upgrade_gate::gates {

void PrintTo(Verdict verdict, std::ostream* out) {
  *out << Name(verdict);
}
void PrintTo(Finding finding, std::ostream* out) {
  *out << Name(finding);
}

}  // namespace upgrade_gate::gates

namespace upgrade_gate::base {

void PrintTo(const Percent& percent, std::ostream* out) {
  *out << ToString(percent);
}
void PrintTo(const TokensPerSecond& rate, std::ostream* out) {
  *out << ToString(rate);
}

}  // namespace upgrade_gate::base
