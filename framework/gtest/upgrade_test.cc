#include "framework/gtest/upgrade_test.h"

#include "framework/base/result.h"
#include "framework/base/text.h"
#include "framework/gtest/session.h"

namespace upgrade_gate::gtest {
namespace {

Session& Here() {
  Session* session = Session::Current();
  UG_CHECK(session != nullptr);  // only the gate binary runs these tests
  return *session;
}

MeasuredArm ArmOf(const plan::Arm* arm, const char* role) {
  // Without one, a matcher says that the plan has no arm of this name.
  return {arm == nullptr ? role : arm->name, std::nullopt};
}

}  // namespace

MeasuredArm UpgradeTest::Baseline() {
  return ArmOf(Plan().baseline(), "baseline");
}
MeasuredArm UpgradeTest::Candidate() {
  return ArmOf(Plan().candidate(), "candidate");
}

const plan::Case& UpgradeTest::Case(const std::string& name) {
  static const plan::Case kNone;
  const plan::Case* found = Plan().FindCase(name);
  if (found != nullptr) return *found;
  ADD_FAILURE() << "the plan has no case \"" << name << "\"" << base::DidYouMean(name, CaseNames());
  return kNone;
}

std::vector<std::string> UpgradeTest::CaseNames(const std::optional<std::string>& shape) {
  std::vector<std::string> names;
  for (const plan::Case& of : Plan().workload.cases) {
    if (!shape || of.shape == *shape) names.push_back(of.name);
  }
  return names;
}

const plan::ResolvedPlan& UpgradeTest::Plan() {
  return Here().plan();
}
const evidence::Summary& UpgradeTest::Summary() {
  return Here().Look();
}

}  // namespace upgrade_gate::gtest
