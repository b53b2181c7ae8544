#include "framework/gtest/native_result.h"

#include <algorithm>
#include <sstream>

#include "framework/base/text.h"

namespace upgrade_gate::gtest {
namespace {

using gates::Finding;
using gates::Verdict;

const Evaluation* FirstOf(const Session& session, Verdict verdict) {
  const auto& all = session.evaluations();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Evaluation& evaluation) {
    return evaluation.result.verdict == verdict;
  });
  return found == all.end() ? nullptr : &*found;
}

const TestRun::Failure* FirstFailure(const TestRun& run) {
  const auto found = std::find_if(
      run.failures.begin(), run.failures.end(),
      [](const TestRun::Failure& failure) { return failure.verdict == Verdict::kFail; });
  return found == run.failures.end() ? nullptr : &*found;
}

// "Value of: x\nExpected: y\n  Actual: z" on one line.
std::string Joined(const std::string& text) {
  std::string line;
  std::istringstream lines(text);
  for (std::string part; std::getline(lines, part);) {
    const std::size_t begin = part.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    line += (line.empty() ? "" : "; ") + part.substr(begin);
  }
  return line;
}

// The numbers of one expectation, and how many others there were.
void Take(const Evaluation& of, const Session& session, gates::GateResult& result) {
  result.finding = of.result.finding;
  result.message = of.result.message;
  result.estimate = of.result.estimate;
  result.interval = of.result.interval;
  result.margin = of.margin;
  result.rounds = of.result.rounds;
  result.boots = of.result.boots;
  const std::size_t others = session.evaluations().size() - 1;
  if (others > 0) {
    result.message += " (and " + std::to_string(others) +
                      (others == 1 ? " other expectation)" : " other expectations)");
  }
}

void Explain(const Session& session, const TestRun& run, gates::GateResult& result) {
  for (const TestRun::Failure& failure : run.failures) {
    std::istringstream lines(failure.text);
    for (std::string line; std::getline(lines, line);) {
      result.explanation.push_back(base::Visible(line));
    }
  }
  for (const Evaluation& evaluation : session.evaluations()) {
    result.cases.push_back(evaluation.result);
    result.explanation.push_back(evaluation.result.message);
    for (const std::string& line : evaluation.explanation) {
      result.explanation.push_back("  " + line);
    }
  }
  result.explanation.push_back(std::string("verdict: ") + std::string(gates::Name(result.verdict)) +
                               " (" + std::string(gates::Describe(result.finding)) + ")");
}

}  // namespace

gates::GateResult NativeResult(const plan::Gate& gate, Session& session, const TestRun& run) {
  gates::GateResult result;
  result.id = gate.id;
  result.kind = gate.kind();
  result.severity = gate.severity;
  result.location = gate.location;
  const Evaluation* failed = FirstOf(session, Verdict::kFail);
  const Evaluation* open = FirstOf(session, Verdict::kInconclusive);
  if (const TestRun::Failure* failure = FirstFailure(run)) {
    result.verdict = Verdict::kFail;
    if (failed != nullptr) {
      Take(*failed, session, result);
    } else {
      result.finding = Finding::kExpectationFailed;
      result.message = Joined(failure->text);
    }
  } else if (run.skipped) {
    result.finding = Finding::kNotMeasured;
    result.message = "the test skipped itself: " + Joined(*run.skipped);
  } else if (open != nullptr) {
    Take(*open, session, result);
  } else if (!session.looked()) {
    result.finding = Finding::kNotMeasured;
    result.message = "the test looked at no evidence, so it says nothing of this upgrade";
  } else {
    if (session.evaluations().empty()) {
      result.message = "the test read the run's numbers and reported no failure: pass";
    } else {
      Take(session.evaluations().front(), session, result);
    }
    result.verdict = Verdict::kPass;
    result.finding = Finding::kNone;
  }
  Explain(session, run, result);
  return result;
}

}  // namespace upgrade_gate::gtest
