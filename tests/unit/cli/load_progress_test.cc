#include "framework/cli/load_progress.h"

#include <gtest/gtest.h>

namespace upgrade_gate::cli {
namespace {

using std::chrono::seconds;

TEST(LoadProgress, SaysWhereTheLoadStands) {
  LoadMoment moment;
  moment.part = "round 1/3";
  EXPECT_EQ(DescribeMoment(moment), "round 1/3: 0 ended, 0 failed, 0 in flight");
  moment.planned = 960;
  moment.sent = 152;
  moment.elapsed = seconds(10);
  EXPECT_EQ(DescribeMoment(moment), "round 1/3: 0 of 960 ended, 0 failed, 152 in flight");
  moment.ended = 120;
  moment.failed = 3;
  moment.chunks_per_s = 1830.4;
  EXPECT_EQ(DescribeMoment(moment),
            "round 1/3: 120 of 960 ended, 3 failed, 32 in flight, 1,830 chunks/s, 70 s left");
}

TEST(LoadProgress, ADurationSaysWhatIsLeftOfIt) {
  LoadMoment moment;
  moment.part = "round 2/2";
  moment.sent = 1500;
  moment.ended = 1492;
  moment.lasts = seconds(60);
  moment.elapsed = seconds(45);
  EXPECT_EQ(DescribeMoment(moment), "round 2/2: 1,492 ended, 0 failed, 8 in flight, 15 s left");
  moment.elapsed = seconds(61);  // what is in flight still ends
  EXPECT_EQ(DescribeMoment(moment), "round 2/2: 1,492 ended, 0 failed, 8 in flight, 0 s left");
}

}  // namespace
}  // namespace upgrade_gate::cli
