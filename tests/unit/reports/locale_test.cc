// What machines and people read does not follow the locale of the process, which
// is the user's own in a gate binary.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "framework/gates/judge.h"
#include "reports/junit/junit.h"
#include "reports/text/summary_text.h"
#include "tests/support/german_locale.h"
#include "tests/unit/reports/hand_values.h"

namespace upgrade_gate {
namespace {

struct Output {
  const char* name;
  std::function<std::string()> write;
};

// What gtest prints where the test fails.
void PrintTo(const Output& output, std::ostream* out) {
  *out << output.name;
}

class LocaleTest : public testing::TestWithParam<Output> {};

TEST_P(LocaleTest, GermanOutputIsTheSame) {
  const std::string before = GetParam().write();
  const test::GermanLocale german;
  EXPECT_EQ(GetParam().write(), before);
}

// Throughputs above a thousand: German digits would group them.
gates::Judgement LargeNumbers() {
  auto judgement = reports_test::HandJudgement();
  judgement.gates[0].estimate = 12345.678;
  judgement.gates[0].margin = 1.25e-7;
  judgement.gates[0].cases[0].candidate = 1234567.8;
  return judgement;
}

INSTANTIATE_TEST_SUITE_P(
    All, LocaleTest,
    testing::Values(
        Output{"Junit",
               [] {
                 return junit::RenderJunit(
                     reports_test::HandPlan(), reports_test::HandSummary(), LargeNumbers(), {},
                     {.suite_name = "s", .plan_file = "p", .timestamp = "t", .hostname = "h"});
               }},
        Output{"JudgeJson",
               [] { return gates::WriteJudgement(LargeNumbers(), reports_test::HandSummary()); }},
        Output{"Fragment",
               [] {
                 return gates::WriteFragment(
                     {LargeNumbers().gates[0], std::string(64, 'a'), std::string(64, 'b')});
               }},
        Output{"VerdictEnv", [] { return text::RenderVerdictEnv(LargeNumbers()); }},
        Output{"Summary",
               [] {
                 return text::RenderSummary(reports_test::HandPlan(), reports_test::HandSummary(),
                                            LargeNumbers(), {});
               }},
        Output{"Explanation", [] { return text::RenderExplanation(LargeNumbers().gates[0], {}); }}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace upgrade_gate
