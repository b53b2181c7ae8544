// The verdict of a native gate, from what its test did. Not for users.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/gates/judgement.h"
#include "framework/gtest/session.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::gtest {

// What GoogleTest told of the one test.
struct TestRun {
  struct Failure {
    std::string text;  // "own_gates.cc:12: Value of: …", several lines
    gates::Verdict verdict = gates::Verdict::kFail;
  };
  std::vector<Failure> failures;
  std::optional<std::string> skipped;  // why
};

// Fail if anything failed other than a matcher that cannot tell; inconclusive if
// one could not tell, even under Not(…), if the test was skipped or looked at no
// evidence; pass otherwise. The numbers are those of the expectation that decides.
gates::GateResult NativeResult(const plan::Gate& gate, Session& session, const TestRun& run);

}  // namespace upgrade_gate::gtest
