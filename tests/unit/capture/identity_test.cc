#include "framework/capture/identity.h"

#include <gtest/gtest.h>

namespace upgrade_gate::capture {
namespace {

TEST(DiffersFromPlanTest, NamesBothValuesOfEveryDifference) {
  EXPECT_EQ(DiffersFromPlan({}, {{"version", "1"}}), "");
  EXPECT_EQ(DiffersFromPlan({{"version", "1"}}, {{"version", "1"}, {"more", "x"}}), "");
  EXPECT_EQ(DiffersFromPlan({{"image", "b"}, {"version", "1"}}, {{"version", "2\x1b"}}),
            "image: the server says nothing, the plan declares \"b\"; version: the server says "
            "\"2\\x1b\", the plan declares \"1\"");
}

TEST(ChangedSinceTest, NamesBothValuesOfEveryChange) {
  const evidence::ServerIdentity before{"pod-1", {{"image", "a"}, {"node", "n1"}}, {}};
  evidence::ServerIdentity now = before;
  now.warnings.emplace_back("not a part of what it is");
  EXPECT_EQ(ChangedSince(before, now), "");
  now = {"pod-2", {{"image", "b"}, {"zone", "z"}}, {}};
  EXPECT_EQ(ChangedSince(before, now),
            "id: was \"pod-1\", is \"pod-2\"; image: was \"a\", is \"b\"; node: was \"n1\", is "
            "nothing; zone: was nothing, is \"z\"");
}

}  // namespace
}  // namespace upgrade_gate::capture
