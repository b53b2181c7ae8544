#include "framework/server/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "framework/base/file.h"
#include "framework/server/lease_watchdog.h"
#include "tests/support/processes.h"
#include "tests/unit/base/temp_folder.h"

namespace upgrade_gate::server {
namespace {

using base::InfrastructureError;
using base::Result;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = LeaseJudge::State;
using testing_support::Eventually;
using testing_support::IsAlive;
using testing_support::TestProcess;

constexpr const char* kRun = "nightly-17-4711-1790000000";

std::string Bytes(std::int64_t counter, bool over = false, std::optional<seconds> ends_in = {},
                  const std::string& run_id = kRun) {
  return FormatLease({.run_id = run_id,
                      .counter = counter,
                      .interval = seconds(3),
                      .over = over,
                      .ends_in = ends_in});
}

TEST(LeaseTest, IsReadAsItWasWritten) {
  EXPECT_EQ(FormatLease({.run_id = "a-1", .counter = 7}),
            "{\n  \"schema\": 1,\n  \"run_id\": \"a-1\",\n  \"counter\": 7,\n"
            "  \"interval_s\": 3,\n  \"over\": false\n}\n");
  const auto lease = ParseLease(Bytes(8, true, seconds(90)));
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_EQ(lease->run_id, kRun);
  EXPECT_EQ(lease->counter, 8);
  EXPECT_EQ(lease->interval, seconds(3));
  EXPECT_TRUE(lease->over);
  EXPECT_EQ(lease->ends_in, seconds(90));
}

TEST(LeaseTest, AnythingElseIsNoLease) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "is not JSON"},
      {"<html>503</html>", "is not JSON"},
      {"[]", "is not a JSON object"},
      {"{}", "schema"},
      {R"({"schema":2})", "has schema 2, and 1 is known: use the runner's own version"},
      {R"({"schema":1,"run_id":"a b","counter":1,"interval_s":3,"over":false})",
       "\"run_id\" is not a plain name"},
      {R"({"schema":1,"run_id":"a","counter":"1","interval_s":3,"over":false})", "counter"},
      {R"({"schema":1,"run_id":"a","counter":1,"interval_s":-3,"over":false})",
       "\"interval_s\" is out of range"},
      {R"({"schema":1,"run_id":"a","counter":1,"interval_s":3,"over":0})", "over"},
      {R"({"schema":1,"run_id":"a","counter":1,"interval_s":3,"over":false,"ends_in_s":1e99})",
       "ends_in_s"},
      {std::string(kMostLeaseBytes + 1, ' '), "is longer than 65536 bytes"},
  };
  for (const auto& [bytes, message] : cases) {
    const auto lease = ParseLease(bytes);
    ASSERT_FALSE(lease) << bytes;
    EXPECT_THAT(lease.error().message, HasSubstr(message)) << bytes;
  }
}

// A watcher that looks once a second, or less often.
class Judging {
 public:
  explicit Judging(LeaseJudge::Options options = {.run_id = kRun,
                                                  .grace = seconds(60),
                                                  .wait = seconds(300),
                                                  .longest_step = seconds(10)})
      : judge_(std::move(options), now_) {}

  State After(milliseconds time, std::optional<Result<std::string>> read) {
    now_ += time;
    return judge_.Take(read, now_);
  }
  // The state after so many seconds in which every look gives the same.
  State For(int looks, const std::optional<Result<std::string>>& read) {
    State state{};
    for (int i = 0; i < looks; ++i) state = After(seconds(1), read);
    return state;
  }
  const LeaseJudge& judge() const { return judge_; }

 private:
  base::Instant now_{};
  LeaseJudge judge_;
};

TEST(LeaseJudgeTest, ACounterThatGrowsIsARunThatLives) {
  Judging judging;
  for (int counter = 1; counter < 200; ++counter) {
    ASSERT_EQ(judging.After(seconds(3), Bytes(counter)), State::kRenewed);
  }
}

TEST(LeaseJudgeTest, OneThatStandsStillIsADeadRunAfterTheGrace) {
  Judging judging;
  ASSERT_EQ(judging.After(seconds(1), Bytes(5)), State::kRenewed);
  EXPECT_EQ(judging.For(6, Bytes(5)), State::kRenewed);
  EXPECT_EQ(judging.For(1, Bytes(5)), State::kOverdue);
  EXPECT_EQ(judging.For(52, Bytes(5)), State::kOverdue);
  EXPECT_EQ(judging.For(1, Bytes(5)), State::kStalled);
}

TEST(LeaseJudgeTest, OneRenewalWithinTheGraceIsEnough) {
  Judging judging;
  ASSERT_EQ(judging.After(seconds(1), Bytes(5)), State::kRenewed);
  ASSERT_EQ(judging.For(59, Bytes(5)), State::kOverdue);
  EXPECT_EQ(judging.After(seconds(0), Bytes(6)), State::kRenewed);
  EXPECT_EQ(judging.For(59, Bytes(6)), State::kOverdue);
}

TEST(LeaseJudgeTest, AnOlderCounterIsACacheAndNoRenewal) {
  Judging judging;
  ASSERT_EQ(judging.After(seconds(1), Bytes(5)), State::kRenewed);
  State state{};
  for (int i = 0; i < 60; ++i) state = judging.After(seconds(1), Bytes(i % 2 == 0 ? 4 : 5));
  EXPECT_EQ(state, State::kStalled);
}

TEST(LeaseJudgeTest, WhatCannotBeReadIsNoRenewal) {
  const std::optional<Result<std::string>> reads[] = {
      std::nullopt,  // a reading that hangs
      Result<std::string>(tl::unexpected(InfrastructureError("no route to host"))),
      Result<std::string>("<html>"),
      Result<std::string>(std::string(kMostLeaseBytes + 1, 'x')),
      // The next run in the same folder: ours is surely dead.
      Result<std::string>(Bytes(9, false, {}, "other-1")),
      Result<std::string>(Bytes(9, true, {}, "other-1")),
  };
  const char* problems[] = {"",
                            "no route to host",
                            "is not JSON",
                            "longer than",
                            "is of run other-1",
                            "is of run other-1"};
  for (int i = 0; i < 6; ++i) {
    Judging judging;
    ASSERT_EQ(judging.After(seconds(1), Bytes(5)), State::kRenewed);
    EXPECT_EQ(judging.For(59, reads[i]), State::kOverdue) << i;
    EXPECT_THAT(judging.judge().problem(), HasSubstr(problems[i]));
    EXPECT_EQ(judging.For(1, reads[i]), State::kStalled) << i;
  }
}

TEST(LeaseJudgeTest, TheEndOfARunIsSaid) {
  Judging judging;
  ASSERT_EQ(judging.After(seconds(1), Bytes(5)), State::kRenewed);
  EXPECT_EQ(judging.After(seconds(1), Bytes(6, true)), State::kOver);
  // Also where it is the first that is seen.
  EXPECT_EQ(Judging().After(seconds(1), Bytes(6, true)), State::kOver);
}

TEST(LeaseJudgeTest, TheDeadlineCountsFromTheLastRenewalOnOnesOwnClock) {
  Judging judging;
  ASSERT_EQ(judging.After(seconds(1), Bytes(1, false, seconds(20))), State::kRenewed);
  ASSERT_EQ(judging.After(seconds(3), Bytes(2, false, seconds(17))), State::kRenewed);
  EXPECT_EQ(judging.For(16, Bytes(2, false, seconds(17))), State::kOverdue);
  EXPECT_EQ(judging.For(1, Bytes(2, false, seconds(17))), State::kDeadline);
  // A runner that hangs and renews.
  EXPECT_EQ(Judging().After(seconds(1), Bytes(3, false, seconds(0))), State::kDeadline);
}

TEST(LeaseJudgeTest, ALeaseThatNeverComesIsNoEndOfARun) {
  const Result<std::string> missing = tl::unexpected(InfrastructureError("No such file"));
  Judging judging;
  EXPECT_EQ(judging.For(299, missing), State::kWaiting);
  EXPECT_EQ(judging.For(1, missing), State::kNeverSeen);
  EXPECT_EQ(judging.judge().problem(), "No such file");
  EXPECT_EQ(Judging().For(300, Result<std::string>("garbage")), State::kNeverSeen);
}

TEST(LeaseJudgeTest, TheFirstLeaseHasToBeOfTheRun) {
  Judging judging;
  EXPECT_EQ(judging.After(seconds(1), Bytes(5, false, {}, "other-1")), State::kForeign);
  EXPECT_EQ(judging.judge().problem(), "is of run other-1");
  // That it is over says nothing of ours.
  EXPECT_EQ(Judging().After(seconds(1), Bytes(5, true, {}, "other-1")), State::kForeign);
}

TEST(LeaseJudgeTest, AGraceShorterThanThreeRenewalsIsRefused) {
  Judging shorter({.run_id = kRun, .grace = seconds(8)});
  EXPECT_EQ(shorter.After(seconds(1), Bytes(1)), State::kGraceTooShort);
  Judging enough({.run_id = kRun, .grace = seconds(9)});
  EXPECT_EQ(enough.After(seconds(1), Bytes(1)), State::kRenewed);
}

TEST(LeaseJudgeTest, TimeInWhichNobodyLookedDoesNotCount) {
  Judging judging;
  ASSERT_EQ(judging.After(seconds(1), Bytes(5)), State::kRenewed);
  // The watcher was stopped for an hour; its first look fails.
  EXPECT_EQ(judging.After(seconds(3600), std::nullopt), State::kOverdue);
  EXPECT_EQ(judging.After(seconds(1), Bytes(1205)), State::kRenewed);
}

// The lease, read again and again until it says so.
bool Says(const std::filesystem::path& file, const std::function<bool(const Lease&)>& wanted) {
  return Eventually([&] {
    const auto bytes = base::ReadFile(file, kMostLeaseBytes);
    const auto lease = bytes ? ParseLease(*bytes) : base::UsageError("unread");
    return lease && wanted(*lease);
  });
}

TEST(LeaseKeeperTest, RenewsUntilItEndsAndThenSaysSo) {
  const base::TempFolder folder;
  const auto file = folder.path() / "lease.json";
  auto keeper = LeaseKeeper::Start({.file = file,
                                    .run_id = kRun,
                                    .interval = milliseconds(5),
                                    .deadline = base::SystemClock().now() + std::chrono::hours(1)});
  ASSERT_TRUE(keeper) << keeper.error().message;
  EXPECT_TRUE(Says(file, [](const Lease& lease) {
    return lease.counter >= 4 && !lease.over && lease.run_id == kRun && lease.ends_in &&
           *lease.ends_in <= seconds(3600) && *lease.ends_in > seconds(3000);
  }));
  keeper->reset();
  EXPECT_TRUE(Says(file, [](const Lease& lease) { return lease.over; }));
}

TEST(LeaseKeeperTest, WhatCannotBeWrittenIsSaidOnceAndTriedAgain) {
  const base::TempFolder folder;
  const auto file = folder.path() / "run/lease.json";
  EXPECT_FALSE(LeaseKeeper::Start({.file = file, .run_id = kRun}));
  std::filesystem::create_directory(folder.path() / "run");
  std::mutex mutex;
  std::vector<std::string> said;
  const auto lines = [&] {
    const std::lock_guard lock(mutex);
    return said;
  };
  const auto keeper = LeaseKeeper::Start({.file = file,
                                          .run_id = kRun,
                                          .interval = milliseconds(5),
                                          .say = [&](const std::string& line) {
                                            const std::lock_guard lock(mutex);
                                            said.push_back(line);
                                          }});
  ASSERT_TRUE(keeper) << keeper.error().message;
  std::filesystem::rename(folder.path() / "run", folder.path() / "away");
  ASSERT_TRUE(Eventually([&] { return lines().size() == 1; }));
  std::filesystem::rename(folder.path() / "away", folder.path() / "run");
  ASSERT_TRUE(Eventually([&] { return lines().size() == 2; }));
  EXPECT_THAT(lines(),
              ElementsAre(HasSubstr("the run's lease cannot be renewed, and a watchdog of another "
                                    "node will take it for dead: "),
                          "the run's lease is renewed again"));
}

// A watch that is over at once, or soon.
struct Watched {
  explicit Watched(const std::string& run) {
    watch.judge = {.run_id = run, .wait = milliseconds(50)};
    watch.lease = "/run/lease.json";
    watch.heartbeat = milliseconds(1);
    watch.say = [this](const std::string& line) { said.push_back(line); };
  }
  LeaseWatch watch;
  std::vector<std::string> said;
};

TEST(WatchLeaseTest, EndsTheProcessesAndRunsTheCleanersOfARunThatIsOver) {
  const std::string run = "over-" + std::to_string(getpid());
  const TestProcess ours({UPGRADE_GATE_STUBBORN, "--own-session"},
                         {std::string(kRunMarker) + "=" + run});
  const TestProcess other({UPGRADE_GATE_STUBBORN}, {std::string(kRunMarker) + "=" + run + "x"});
  const auto pids = ours.WaitForPids();
  Watched watched(run);
  watched.watch.read = [run] { return Bytes(1, true, {}, run); };
  std::string cleaned;
  watched.watch.cleaners["docker"] = [&](const std::string& argument,
                                         milliseconds) -> base::Status {
    cleaned = argument;
    return {};
  };
  const auto ended = WatchLease(watched.watch);
  ASSERT_TRUE(ended) << ended.error().message;
  EXPECT_EQ(cleaned, run);
  for (const pid_t pid : pids) EXPECT_TRUE(Eventually([&] { return !IsAlive(pid); }));
  EXPECT_TRUE(IsAlive(other.pid()));
  EXPECT_THAT(watched.said,
              ElementsAre("run " + run +
                              ": looking at /run/lease.json every 0 s; what is left of "
                              "the run here is ended once that is not renewed for 60 s",
                          "run " + run + ": it is over: ending what is left of it here",
                          "run " + run + ": nothing of it is left here; 2 processes were killed"));
}

TEST(WatchLeaseTest, CleansBeforeItKillsTheJobThatItMayBeInAndAgainAfterwards) {
  const std::string run = "job-" + std::to_string(getpid());
  const TestProcess job({UPGRADE_GATE_STUBBORN}, {std::string(kRunMarker) + "=" + run});
  job.WaitForPids();
  Watched watched(run);
  watched.watch.read = [run] { return Bytes(1, true, {}, run); };
  std::vector<bool> job_lived;
  watched.watch.cleaners["docker"] = [&](const std::string&, milliseconds) -> base::Status {
    job_lived.push_back(IsAlive(job.pid()));
    return job_lived.size() == 1 ? InfrastructureError("not yet") : base::Status();
  };
  const auto ended = WatchLease(watched.watch);
  ASSERT_TRUE(ended) << ended.error().message;
  EXPECT_THAT(job_lived, ElementsAre(true, false));
}

TEST(WatchLeaseTest, WhatNeverCameEndsNothing) {
  const std::string run = "never-" + std::to_string(getpid());
  const TestProcess ours({UPGRADE_GATE_STUBBORN}, {std::string(kRunMarker) + "=" + run});
  Watched watched(run);
  watched.watch.read = []() -> Result<std::string> { return InfrastructureError("not there"); };
  watched.watch.cleaners["docker"] = [](const std::string&, milliseconds) -> base::Status {
    ADD_FAILURE() << "cleaned";
    return {};
  };
  const auto ended = WatchLease(watched.watch);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().kind, base::ErrorKind::kInfrastructure);
  EXPECT_EQ(ended.error().message,
            "/run/lease.json: no lease of run " + run +
                " within 0 s: not there; nothing was ended: see that the capture runs and that "
                "this node sees its folder");
  watched.watch.read = [] { return Bytes(1, true, {}, "other-1"); };
  watched.watch.judge.wait = seconds(60);
  EXPECT_EQ(WatchLease(watched.watch).error().message,
            "/run/lease.json: is of run other-1, and not of run " + run +
                "; nothing was ended: give the lease and the id of one run");
  EXPECT_TRUE(IsAlive(ours.pid()));
}

TEST(WatchLeaseTest, AReadingThatHangsKeepsNobodyFromJudging) {
  const std::string run = "hangs-" + std::to_string(getpid());
  Watched watched(run);
  const auto hang = std::make_shared<std::atomic<bool>>(true);
  watched.watch.judge.grace = seconds(3);
  watched.watch.read = [hang, run, reads = std::make_shared<int>(0)]() -> Result<std::string> {
    if (++*reads > 1) hang->wait(true);
    return FormatLease({.run_id = run, .counter = 1, .interval = seconds(1)});
  };
  const auto ended = WatchLease(watched.watch);
  hang->store(false);
  hang->notify_all();
  ASSERT_TRUE(ended) << ended.error().message;
  EXPECT_THAT(watched.said[3], HasSubstr("the lease was not renewed for 3 s"));
}

TEST(WatchLeaseTest, ToldToEndItCleansToo) {
  const std::string run = "told-" + std::to_string(getpid());
  const TestProcess ours({UPGRADE_GATE_STUBBORN}, {std::string(kRunMarker) + "=" + run});
  Watched watched(run);
  watched.watch.read = [run] { return Bytes(1, false, {}, run); };
  watched.watch.told_to_end = [] { return true; };
  ASSERT_TRUE(WatchLease(watched.watch));
  EXPECT_TRUE(Eventually([&] { return !IsAlive(ours.pid()); }));
  EXPECT_THAT(watched.said[1], HasSubstr("the watchdog was told to end"));
}

}  // namespace
}  // namespace upgrade_gate::server
