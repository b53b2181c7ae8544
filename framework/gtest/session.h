// What a native gate's test looks at and what it said, between the matchers and
// the gate binary. Not for users.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/evidence/summary.h"
#include "framework/gates/judgement.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gtest {

// One expectation on the evidence, judged.
struct Evaluation {
  gates::CaseResult result;  // `message` names the subject, the demand and the numbers
  std::optional<double> margin;
  std::vector<std::string> explanation;
};

// One test of one gate. A test has one thread that expects.
class Session {
 public:
  // Both must outlive the session. There is at most one at a time.
  Session(const plan::ResolvedPlan& plan, const evidence::Summary& summary);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Null where no gate is running.
  static Session* Current();

  const plan::ResolvedPlan& plan() const { return plan_; }
  // Looking at the numbers is what keeps a test from being one of nothing.
  const evidence::Summary& Look();
  bool looked() const { return looked_; }

  // `explained`: GoogleTest asks for the words, so that a failure comes next.
  void Record(Evaluation evaluation, bool explained);
  const std::vector<Evaluation>& evaluations() const { return evaluations_; }
  // Of the failure that has just been reported: kInconclusive if it is that of
  // matchers that cannot tell, kFail for anything else.
  gates::Verdict TakeFailure();

 private:
  const plan::ResolvedPlan& plan_;
  const evidence::Summary& summary_;
  bool looked_ = false;
  std::vector<Evaluation> evaluations_;  // each once, however often it was asked for
  std::vector<gates::Verdict> explained_;
};

}  // namespace upgrade_gate::gtest
