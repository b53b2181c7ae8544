#include "framework/server/leftovers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/text.h"
#include "framework/server/line_feed.h"
#include "framework/server/run_id.h"
#include "framework/server/watchdog.h"
#include "tests/support/processes.h"

namespace upgrade_gate::server {
namespace {

using testing_support::IsAlive;
using testing_support::TestProcess;

std::string Marker(const std::string& run_id) {
  return std::string(kRunMarker) + "=" + run_id;
}

// The id that the same moment's run of another process would have.
std::string IdOf(const Process& runner) {
  return "plan-" + std::to_string(runner.pid) + "-" + std::to_string(runner.start_time) + "-1";
}

TEST(RunIdTest, NamesItsRunner) {
  const std::string id = MakeRunId(std::string(64, 'p'), base::WallTime{} + std::chrono::hours(1));
  EXPECT_TRUE(base::IsPlainName(id)) << id;
  EXPECT_TRUE(id.ends_with("-3600")) << id;
  const auto runner = RunnerOf(id);
  ASSERT_TRUE(runner);
  EXPECT_EQ(runner->pid, getpid());
  EXPECT_TRUE(IsAlive(*runner));
  EXPECT_FALSE(IsAlive(Runner{getpid(), runner->start_time + 1})) << "a stranger of that number";
}

TEST(RunIdTest, OtherTextsNameNone) {
  for (const char* text : {"", "a", "a-1-2", "a-1-2-3", "a-0-2-3", "a-12-0-3", "a-12-2-",
                           "a-12-x-3", "a b-12-3-4", "a-12--3", "-12-3-4"}) {
    EXPECT_FALSE(RunnerOf(text)) << text;
  }
  EXPECT_TRUE(RunnerOf("a-b-12-3-4"));
}

TEST(LeftoversTest, OfADeadRunAreFoundAndEndedAndOfALivingOneNot) {
  std::string dead;
  {
    const TestProcess runner({UPGRADE_GATE_STUBBORN});
    ASSERT_EQ(runner.WaitForPids().size(), 1U);
    dead = IdOf(*ReadProcess(runner.pid()));
  }
  const std::string living = IdOf(*ReadProcess(getpid()));
  const TestProcess left({UPGRADE_GATE_STUBBORN, "--ignore-term", "--worker"}, {Marker(dead)});
  const TestProcess used({UPGRADE_GATE_STUBBORN}, {Marker(living)});
  const TestProcess unknown({UPGRADE_GATE_STUBBORN}, {Marker("some-run")});
  ASSERT_EQ(left.WaitForPids().size(), 2U);
  ASSERT_EQ(used.WaitForPids().size(), 1U);
  ASSERT_EQ(unknown.WaitForPids().size(), 1U);

  const auto found = FindLeftovers();
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(found->contains(dead));
  EXPECT_EQ(found->at(dead).size(), 2U);
  EXPECT_FALSE(found->contains(living));
  EXPECT_FALSE(found->contains("some-run"));

  const base::SystemClock clock;
  for (const std::string& refused : {living, std::string("some-run")}) {
    const auto ended = EndLeftovers(refused, clock);
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().message,
              "run " + refused + ": its runner is alive, or not known; nothing was ended");
  }
  const auto ended = EndLeftovers(dead, clock);
  ASSERT_TRUE(ended) << ended.error().message;
  EXPECT_EQ(*ended, 2);
  EXPECT_FALSE(IsAlive(left.pid()));
  EXPECT_TRUE(IsAlive(used.pid()));
  EXPECT_TRUE(IsAlive(unknown.pid()));
}

TEST(LineFeedTest, PassesOnWholeLinesOnly) {
  const auto log = *LogCapture::Open({});
  LineFeed one(*log);
  LineFeed two(*log);
  one.Take("on");
  two.Take("two\ntw");
  one.Take("e\n");
  two.Take("o again");
  one.Finish();
  two.Finish();
  two.Finish();
  EXPECT_EQ(log->text(), "two\none\ntwo again\n");
  one.Take(std::string(70000, 'x'));
  EXPECT_EQ(log->totals().written, 18 + 70000U) << "a line without an end is not kept for ever";
}

}  // namespace
}  // namespace upgrade_gate::server
