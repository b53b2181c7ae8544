#include "framework/evidence/layout.h"

#include <gtest/gtest.h>

#include <string>

namespace upgrade_gate::evidence {
namespace {

TEST(LayoutTest, PathsFollowTheGrammar) {
  const Layout layout("run");
  EXPECT_EQ(layout.boot(1, "baseline"), "run/evidence/boots/01-baseline");
  EXPECT_EQ(layout.boot(123, "no-replay"), "run/evidence/boots/123-no-replay");
  EXPECT_EQ(layout.round("8k-256-c8", 2, "candidate", 3),
            "run/evidence/rounds/8k-256-c8/02-candidate-r3");
  EXPECT_EQ(layout.sums(), "run/evidence/SHA256SUMS");
  EXPECT_EQ(layout.prompts("8k"), "run/evidence/prompts/8k.jsonl.zst");
  EXPECT_EQ(layout.judgement(), "run/judgement");
  EXPECT_EQ(Layout::StreamName(7, Phase::kFormal), "00007.raw.zst");
  EXPECT_EQ(Layout::StreamName(7, Phase::kWarmup), "warmup-00007.raw.zst");
  EXPECT_EQ(UnfinishedName(layout.round("8k", 1, "baseline", 1)),
            "run/evidence/rounds/8k/.writing-01-baseline-r1");
}

std::string Parsed(const std::string& name) {
  const auto round = ParseRoundName(name);
  if (!round) return "none";
  return std::to_string(round->boot) + "|" + round->arm + "|" + std::to_string(round->round) +
         (round->superseded ? "|superseded" : "");
}

TEST(ParseRoundNameTest, TakesANameApart) {
  EXPECT_EQ(Parsed("01-baseline-r1"), "1|baseline|1");
  EXPECT_EQ(Parsed("12-no-replay-r30"), "12|no-replay|30");
  EXPECT_EQ(Parsed("100-a-r1"), "100|a|1");
  EXPECT_EQ(Parsed("01-baseline-r1.superseded"), "1|baseline|1|superseded");
  EXPECT_EQ(Parsed("01-baseline-r1.superseded-2"), "1|baseline|1|superseded");
  EXPECT_EQ(Parsed("01-baseline-r1.superseded-10"), "1|baseline|1|superseded");
}

TEST(ParseRoundNameTest, AnArmMayLookLikeTheGrammar) {
  EXPECT_EQ(Parsed("01-a-r1-r2"), "1|a-r1|2");
  EXPECT_EQ(Parsed("01-a.superseded-r2"), "1|a.superseded|2");
  EXPECT_EQ(Parsed("01-a-r1.superseded-r2"), "1|a-r1.superseded|2");
  EXPECT_EQ(Parsed("01-02-r3-r4"), "1|02-r3|4");
}

TEST(ParseRoundNameTest, OneRoundHasOneName) {
  for (const char* name : {"",
                           "01-baseline",
                           "1-baseline-r1",
                           "001-baseline-r1",
                           "00-baseline-r1",
                           "01-baseline-r01",
                           "01-baseline-r0",
                           "01-baseline-r",
                           "01--r1",
                           "01-.x-r1",
                           "-baseline-r1",
                           "01-baseline-r1.superseded-1",
                           "01-baseline-r1.superseded-02",
                           "01-baseline-r1.superseded-",
                           "01-baseline-r1.Superseded",
                           "01-baseline-r1 ",
                           "01-base line-r1",
                           "01-baseline-r99999999999999999999",
                           "9999999-baseline-r1",
                           "01-baseline-r-1",
                           "01-baseline-r1.superseded.superseded",
                           ".writing-01-baseline-r1",
                           "+1-baseline-r1",
                           "01-..-r1"}) {
    EXPECT_EQ(Parsed(name), "none") << name;
  }
}

TEST(ParseBootNameTest, TakesWhatBootNameWrites) {
  const auto name = ParseBootName("07-no-replay");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->number, 7);
  EXPECT_EQ(name->arm, "no-replay");
  for (const char* other : {"7-no-replay", "007-a", "00-a", "07", "07-", "a-b", "07-a/b"}) {
    EXPECT_FALSE(ParseBootName(other)) << other;
  }
}

TEST(UnfinishedTest, LeftoversAreRecognised) {
  EXPECT_TRUE(IsUnfinishedFolder(".writing-01-baseline-r1"));
  EXPECT_FALSE(IsUnfinishedFolder("01-baseline-r1"));
  EXPECT_TRUE(IsUnfinishedFile("boot.json.tmp4711"));
  EXPECT_FALSE(IsUnfinishedFile("boot.json"));
  EXPECT_FALSE(IsUnfinishedFile("boot.json.tmp"));
  EXPECT_FALSE(IsUnfinishedFile("x.tmp5.jsonl.zst"));
}

}  // namespace
}  // namespace upgrade_gate::evidence
