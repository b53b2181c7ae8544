#include "framework/cli/pin_diff.h"

#include <gtest/gtest.h>

namespace upgrade_gate::cli {
namespace {

TEST(LineDiff, IsEmptyForEqualTexts) {
  EXPECT_EQ(LineDiff("g.yaml", "a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(LineDiff("g.yaml", "", ""), "");
}

TEST(LineDiff, EachRunOfChangedLinesIsAHunk) {
  EXPECT_EQ(LineDiff("g.yaml", "a\nb\nc\nd\n", "a\nB\nc\nD\n"),
            "--- g.yaml\n+++ g.yaml\n@@ -2 +2 @@\n-b\n+B\n@@ -4 +4 @@\n-d\n+D\n");
  EXPECT_EQ(LineDiff("g.yaml", "a\nb\nc\n", "A\nB\nc\n"),
            "--- g.yaml\n+++ g.yaml\n@@ -1,2 +1,2 @@\n-a\n-b\n+A\n+B\n");
}

TEST(LineDiff, ALastLineWithoutEndIsMarkedAndCarriageReturnsStay) {
  EXPECT_EQ(LineDiff("g.yaml", "a\r\nb", "a\r\nB"),
            "--- g.yaml\n+++ g.yaml\n@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+B\n\\ No "
            "newline at end of file\n");
}

}  // namespace
}  // namespace upgrade_gate::cli
