#include "framework/plan/errors.h"

#include <gtest/gtest.h>

#include "framework/base/exit_code.h"

namespace upgrade_gate::plan {
namespace {

TEST(Errors, AreSortedByPositionAndListedOnce) {
  Errors errors("a.yaml");
  errors.Add({3, 1}, "c");
  errors.Add({1, 9}, "b");
  errors.Add({1, 2}, "a");
  errors.Add({1, 9}, "b");
  errors.Add({1, 9}, "another");
  errors.Add({}, "file");
  EXPECT_EQ(errors.ToError().message,
            "a.yaml: file\na.yaml:1:2: a\na.yaml:1:9: b\na.yaml:1:9: another\na.yaml:3:1: c");
}

TEST(Errors, AreUsageErrors) {
  Errors errors("a.yaml");
  errors.Add({1, 1}, "x");
  EXPECT_EQ(base::ExitCodeOf(errors.ToError().kind), base::ExitCode::kUsage);
}

std::string Listed(int count) {
  Errors errors("a.yaml");
  for (int i = 1; i <= count; ++i) errors.Add({i, 1}, "x");
  return errors.ToError().message;
}

TEST(Errors, OverFiftyAreCounted) {
  EXPECT_EQ(Listed(50).substr(Listed(50).rfind('\n') + 1), "a.yaml:50:1: x");
  EXPECT_EQ(Listed(51).substr(Listed(51).rfind('\n') + 1), "a.yaml: and 1 more error");
  EXPECT_EQ(Listed(62).substr(Listed(62).rfind('\n') + 1), "a.yaml: and 12 more errors");
}

TEST(Errors, ShowHostileTextHarmlessly) {
  EXPECT_EQ(Quoted("a\x1b[2Jb"), "\"a\\x1b[2Jb\"");
  EXPECT_EQ(Quoted(std::string(100, 'x')), "\"" + std::string(77, 'x') + "…\"");
  Errors errors("a\n.yaml");
  errors.Add({1, 1}, "x");
  EXPECT_EQ(errors.ToError().message, "a\\x0a.yaml:1:1: x");
}

}  // namespace
}  // namespace upgrade_gate::plan
