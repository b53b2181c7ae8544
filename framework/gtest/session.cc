#include "framework/gtest/session.h"

#include <algorithm>
#include <utility>

#include "framework/base/result.h"

namespace upgrade_gate::gtest {
namespace {

// GoogleTest makes its fixtures itself, so nothing can be handed to them.
Session* current = nullptr;

}  // namespace

Session::Session(const plan::ResolvedPlan& plan, const evidence::Summary& summary)
    : plan_(plan), summary_(summary) {
  UG_CHECK(current == nullptr);
  current = this;
}

Session::~Session() {
  current = nullptr;
}

Session* Session::Current() {
  return current;
}

const evidence::Summary& Session::Look() {
  looked_ = true;
  return summary_;
}

void Session::Record(Evaluation evaluation, bool explained) {
  if (explained) explained_.push_back(evaluation.result.verdict);
  const bool known = std::any_of(
      evaluations_.begin(), evaluations_.end(),
      [&](const Evaluation& other) { return other.result.message == evaluation.result.message; });
  if (!known) evaluations_.push_back(std::move(evaluation));
}

gates::Verdict Session::TakeFailure() {
  const auto any = [this](gates::Verdict verdict) {
    return std::find(explained_.begin(), explained_.end(), verdict) != explained_.end();
  };
  const bool open = any(gates::Verdict::kInconclusive) && !any(gates::Verdict::kFail);
  explained_.clear();
  return open ? gates::Verdict::kInconclusive : gates::Verdict::kFail;
}

}  // namespace upgrade_gate::gtest
