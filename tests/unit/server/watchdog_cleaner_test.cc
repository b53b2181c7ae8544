// What the watchdog does beside killing processes: cleaners, its deadline, the lock it keeps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "framework/server/watchdog.h"
#include "tests/support/processes.h"

namespace upgrade_gate::server {
namespace {

namespace fs = std::filesystem;
using testing_support::Eventually;
using testing_support::IsAlive;
using testing_support::TestProcess;

class WatchdogCleanerTest : public testing::Test {
 protected:
  WatchdogCleanerTest() {
    std::string name = testing::TempDir() + "watchdog-XXXXXX";
    folder_ = mkdtemp(name.data());
    run_id_ = "run-" + folder_.filename().string();
    auto started = Watchdog::Start(UPGRADE_GATE_WATCHDOG, run_id_);
    EXPECT_TRUE(started) << started.error().message;
    if (started) watchdog_ = std::make_unique<Watchdog>(std::move(*started));
  }
  ~WatchdogCleanerTest() override { fs::remove_all(folder_); }

  std::string File(const std::string& name) const { return (folder_ / name).string(); }
  std::string Read(const std::string& name) const {
    return base::ReadFile(folder_ / name, 1 << 20).value_or("nothing");
  }
  void Add(const std::string& cleaner, const std::string& file) {
    const auto added = watchdog_->AddCleaner(cleaner, File(file));
    EXPECT_TRUE(added) << added.error().message;
  }
  void LetItEnd() {
    const pid_t watcher = watchdog_->pid();
    watchdog_.reset();
    EXPECT_TRUE(Eventually([&] { return !IsAlive(watcher); }));
  }

  fs::path folder_;
  std::string run_id_;
  std::unique_ptr<Watchdog> watchdog_;
};

TEST_F(WatchdogCleanerTest, RunsWhatIsListedAndNothingElse) {
  Add("append", "one");
  Add("append", "two");
  Add("append", "two");  // listed once
  Add("append", "removed");
  Add("unknown", "unknown");
  ASSERT_TRUE(watchdog_->RemoveCleaner("append", File("removed")));
  EXPECT_FALSE(fs::exists(folder_ / "one")) << "the runner is alive";
  LetItEnd();
  EXPECT_EQ(Read("one"), "cleaned\n");
  EXPECT_EQ(Read("two"), "cleaned\n");
  EXPECT_FALSE(fs::exists(folder_ / "removed"));
  EXPECT_FALSE(fs::exists(folder_ / "unknown"));
}

TEST_F(WatchdogCleanerTest, TriesAgainUntilItSucceeds) {
  Add("late", "late");
  Add("append", "beside");
  LetItEnd();
  EXPECT_EQ(Read("late"), "cleaned\n");
  EXPECT_EQ(Read("beside"), "cleaned\n");
}

TEST_F(WatchdogCleanerTest, KillsProcessesBeforeItCleans) {
  const TestProcess server({UPGRADE_GATE_STUBBORN, "--ignore-term"});
  ASSERT_EQ(server.WaitForPids().size(), 1U);
  ASSERT_TRUE(watchdog_->Guard(server.pid()));
  Add("append", "file");
  LetItEnd();
  EXPECT_FALSE(IsAlive(server.pid()));
  EXPECT_EQ(Read("file"), "cleaned\n");
}

TEST_F(WatchdogCleanerTest, PastItsDeadlineItEndsEverythingAlthoughTheRunnerLives) {
  const TestProcess server({UPGRADE_GATE_STUBBORN, "--ignore-term"});
  ASSERT_EQ(server.WaitForPids().size(), 1U);
  ASSERT_TRUE(watchdog_->Guard(server.pid()));
  Add("append", "file");
  ASSERT_TRUE(watchdog_->SetDeadline(std::chrono::seconds(3600)));
  EXPECT_TRUE(IsAlive(server.pid()));
  ASSERT_TRUE(watchdog_->SetDeadline(std::chrono::seconds(0)));
  EXPECT_TRUE(Eventually([&] { return !IsAlive(server.pid()); }));
  EXPECT_TRUE(Eventually([&] { return Read("file") == "cleaned\n"; }));
  EXPECT_TRUE(Eventually([&] { return !IsAlive(watchdog_->pid()); }));
  // Nothing more can be started under it.
  const TestProcess another({UPGRADE_GATE_STUBBORN});
  const auto guarded = watchdog_->Guard(another.pid());
  ASSERT_FALSE(guarded);
  EXPECT_NE(guarded.error().message.find("is no longer there"), std::string::npos);
}

TEST_F(WatchdogCleanerTest, KeepsALockUntilItIsDone) {
  const std::string file = File("lock");
  base::Fd lock(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  ASSERT_TRUE(watchdog_->Hold(lock.get()));
  // Not only on its way: it has the file open.
  const fs::path descriptors = "/proc/" + std::to_string(watchdog_->pid()) + "/fd";
  EXPECT_TRUE(Eventually([&] {
    for (const auto& entry : fs::directory_iterator(descriptors)) {
      std::error_code error;
      if (fs::read_symlink(entry.path(), error) == fs::canonical(file)) return true;
    }
    return false;
  }));
  lock.Close();
  const base::Fd other(open(file.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_NE(flock(other.get(), LOCK_EX | LOCK_NB), 0) << "the watchdog holds it";
  LetItEnd();
  EXPECT_EQ(flock(other.get(), LOCK_EX | LOCK_NB), 0);
}

TEST_F(WatchdogCleanerTest, RefusesWhatIsNotALine) {
  const auto lines = watchdog_->AddCleaner("append", "a\nguard 1 1");
  ASSERT_FALSE(lines);
  EXPECT_EQ(lines.error().message, "cleaner \"append\": is not of one line");
  const auto name = watchdog_->AddCleaner("a b", "x");
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().message, "cleaner \"a b\": is not of one line");
  const auto large = watchdog_->AddCleaner("append", std::string(kMostCleanerBytes + 1, 'x'));
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().message,
            "cleaner \"append\": what it is told has 65537 bytes, more than 65536");
}

TEST_F(WatchdogCleanerTest, TakesAnArgumentOfTheMostBytes) {
  const std::string argument = folder_.string() + std::string(kMostCleanerBytes, '/') + "file";
  const std::string most = argument.substr(0, folder_.string().size()) +
                           std::string(kMostCleanerBytes - folder_.string().size() - 4, '/') +
                           "file";
  ASSERT_EQ(most.size(), kMostCleanerBytes);
  ASSERT_TRUE(watchdog_->AddCleaner("argv", most));  // no JSON: fails, and is told apart from none
  ASSERT_TRUE(watchdog_->RemoveCleaner("argv", most));
  LetItEnd();
}

}  // namespace
}  // namespace upgrade_gate::server
