#include "framework/server/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>

#include "framework/server/forked_child.h"
#include "tests/support/processes.h"

namespace upgrade_gate::server {
namespace {

using testing::HasSubstr;
using testing_support::Eventually;
using testing_support::IsAlive;
using testing_support::TestProcess;

constexpr const char* kWatchdog = UPGRADE_GATE_WATCHDOG;
constexpr const char* kStubborn = UPGRADE_GATE_STUBBORN;

std::string UniqueRun(const std::string& name) {
  return name + "-" + std::to_string(getpid());
}
std::string Marker(const std::string& run) {
  return std::string(kRunMarker) + "=" + run;
}

std::unique_ptr<Watchdog> MustStart(const std::string& run_id) {
  auto watchdog = Watchdog::Start(kWatchdog, run_id);
  EXPECT_TRUE(watchdog.has_value()) << watchdog.error().message;
  return watchdog ? std::make_unique<Watchdog>(std::move(*watchdog)) : nullptr;
}

TEST(WatchdogTest, KillsWhatIsGuardedWhenTheRunnersEndCloses) {
  const TestProcess server({kStubborn, "--ignore-term", "--worker", "--own-session"});
  const auto pids = server.WaitForPids();
  ASSERT_EQ(pids.size(), 3U);
  auto watchdog = MustStart(UniqueRun("guarded"));
  ASSERT_TRUE(watchdog);
  const pid_t watcher = watchdog->pid();
  ASSERT_TRUE(watchdog->Guard(server.pid()).has_value());
  EXPECT_TRUE(IsAlive(watcher));
  watchdog.reset();
  for (const pid_t pid : pids) {
    EXPECT_TRUE(Eventually([&] { return !IsAlive(pid); })) << pid;
  }
  EXPECT_TRUE(Eventually([&] { return !IsAlive(watcher); }));
}

TEST(WatchdogTest, LeavesWhatWasReleasedAlone) {
  const TestProcess released({kStubborn});
  const TestProcess guarded({kStubborn});
  auto watchdog = MustStart(UniqueRun("released"));
  ASSERT_TRUE(watchdog);
  const pid_t watcher = watchdog->pid();
  ASSERT_TRUE(watchdog->Guard(released.pid()).has_value());
  ASSERT_TRUE(watchdog->Guard(guarded.pid()).has_value());
  ASSERT_TRUE(watchdog->Release(released.pid()).has_value());
  watchdog.reset();
  EXPECT_TRUE(Eventually([&] { return !IsAlive(watcher); }));
  EXPECT_FALSE(IsAlive(guarded.pid()));
  EXPECT_TRUE(IsAlive(released.pid()));
}

TEST(WatchdogTest, KillsMarkedProcessesThatNobodyGuardedAndNoOtherRuns) {
  const std::string run = UniqueRun("marked");
  const TestProcess ours({kStubborn, "--own-session"}, {Marker(run)});
  const TestProcess other({kStubborn}, {Marker(run + "x")});
  const auto pids = ours.WaitForPids();
  ASSERT_EQ(pids.size(), 2U);
  auto watchdog = MustStart(run);
  ASSERT_TRUE(watchdog);
  const pid_t watcher = watchdog->pid();
  watchdog.reset();
  EXPECT_TRUE(Eventually([&] { return !IsAlive(watcher); }));
  for (const pid_t pid : pids) EXPECT_FALSE(IsAlive(pid));
  EXPECT_TRUE(IsAlive(other.pid()));
}

TEST(WatchdogTest, OutlivesTheSignalsThatEndARun) {
  const TestProcess server({kStubborn});
  auto watchdog = MustStart(UniqueRun("signals"));
  ASSERT_TRUE(watchdog);
  ASSERT_TRUE(watchdog->Guard(server.pid()).has_value());
  const pid_t watcher = watchdog->pid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) kill(watcher, signal);
  EXPECT_TRUE(IsAlive(watcher));
  watchdog.reset();
  EXPECT_TRUE(Eventually([&] { return !IsAlive(server.pid()); }));
}

TEST(WatchdogTest, ADeadWatchdogIsAnErrorAndNotASignal) {
  const TestProcess server({kStubborn});
  auto watchdog = MustStart(UniqueRun("dead"));
  ASSERT_TRUE(watchdog);
  signal(SIGPIPE, SIG_DFL);  // whatever this test was started with
  kill(watchdog->pid(), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !IsAlive(watchdog->pid()); }));
  const base::Status guarded = watchdog->Guard(server.pid());
  ASSERT_FALSE(guarded.has_value());
  EXPECT_EQ(guarded.error().kind, base::ErrorKind::kInfrastructure);
  EXPECT_EQ(guarded.error().message, "watchdog (pid " + std::to_string(watchdog->pid()) +
                                         "): is no longer there: Broken pipe; nothing is started "
                                         "without it, run again");
  EXPECT_FALSE(watchdog->Release(server.pid()).has_value());
}

TEST(WatchdogTest, GuardingAProcessThatIsGoneIsAnError) {
  auto watchdog = MustStart(UniqueRun("gone"));
  ASSERT_TRUE(watchdog);
  EXPECT_FALSE(watchdog->Guard(1 << 30).has_value());
}

TEST(WatchdogTest, LivesOutsideTheRunnersTreeAndHoldsNothingOfIt) {
  FdPair held = *MakePipe();
  const int inheritable = dup(held.write.get());  // not close-on-exec
  auto watchdog = MustStart(UniqueRun("tree"));
  close(inheritable);
  ASSERT_TRUE(watchdog);
  const auto process = ReadProcess(watchdog->pid());
  ASSERT_TRUE(process.has_value());
  EXPECT_NE(process->parent, getpid());
  EXPECT_NE(getsid(watchdog->pid()), getsid(0));
  const std::string proc = "/proc/" + std::to_string(watchdog->pid());
  std::set<std::string> descriptors;
  for (const auto& entry : std::filesystem::directory_iterator(proc + "/fd")) {
    descriptors.insert(entry.path().filename());
  }
  EXPECT_EQ(descriptors, (std::set<std::string>{"0", "1", "2", "3"}));
  for (const char* fd : {"/fd/0", "/fd/1", "/fd/2"}) {
    EXPECT_EQ(std::filesystem::read_symlink(proc + fd), "/dev/null");
  }
  EXPECT_EQ(std::filesystem::read_symlink(proc + "/cwd"), "/");
}

TEST(WatchdogTest, IsNotTakenForAPartOfAnOuterRun) {
  setenv(kRunMarker, "outer", 1);
  auto watchdog = MustStart(UniqueRun("inner"));
  unsetenv(kRunMarker);
  ASSERT_TRUE(watchdog);
  const auto found = FindLiving({{}, Marker("outer")});
  ASSERT_TRUE(found.has_value());
  for (const Process& process : *found) EXPECT_NE(process.pid, watchdog->pid());
}

TEST(WatchdogTest, StartSaysWhyItCannot) {
  const auto missing = Watchdog::Start("/no/such/file", "run");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().message,
            "/no/such/file: cannot start as the watchdog: No such file or directory");

  const auto other_program = Watchdog::Start("/bin/true", "run");
  ASSERT_FALSE(other_program.has_value());
  EXPECT_THAT(other_program.error().message, HasSubstr("did not say"));

  const auto bad_id = Watchdog::Start(kWatchdog, "a b");
  ASSERT_FALSE(bad_id.has_value());
  EXPECT_EQ(bad_id.error().kind, base::ErrorKind::kUsage);
}

// Feeds a watchdog with bytes of the test's choice and waits for its end.
void FeedWatchdog(const std::string& run_id, const std::string& bytes) {
  FdPair pipe = *MakePipe();
  std::string path = kWatchdog, command = "watchdog", option = "--run-id", value = run_id;
  char* argv[] = {path.data(), command.data(), option.data(), value.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe.read.get(), 3);
  pid_t pid = -1;
  ASSERT_EQ(posix_spawn(&pid, kWatchdog, &actions, nullptr, argv, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  pipe.read.Close();
  ASSERT_EQ(write(pipe.write.get(), bytes.data(), bytes.size()),
            static_cast<ssize_t>(bytes.size()));
  pipe.write.Close();
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(RunWatchdogTest, SkipsWhatItDoesNotUnderstandAndGoesOn) {
  const TestProcess spared({kStubborn});
  const TestProcess guarded({kStubborn});
  const auto guard = [](const TestProcess& process, int offset) {
    return "guard " + std::to_string(process.pid()) + " " +
           std::to_string(static_cast<int>(ReadProcess(process.pid())->start_time) + offset);
  };
  std::string bytes = "guard 0 0\nguard -1 0\nguard 1 0\nguard " + std::to_string(getpgrp()) +
                      " 0\nguard\nguard x y\nguard 99999999999999999999 1\n\n";
  bytes += std::string("\0\xff\x1b\n", 4);
  bytes += std::string(20000, 'g') + guard(spared, 0) + "\n";  // one long line
  bytes += guard(spared, 0) + " trailing\n";
  bytes += guard(spared, -1) + "\n";  // the number of a stranger
  bytes += guard(guarded, 0) + "\n";
  bytes += "release " + std::to_string(guarded.pid()) + "x\n";
  bytes += guard(spared, 0);  // cut off: no newline
  FeedWatchdog(UniqueRun("hostile"), bytes);
  EXPECT_FALSE(IsAlive(guarded.pid()));
  EXPECT_TRUE(IsAlive(spared.pid()));
}

TEST(RunWatchdogTest, AnImpossibleRunIdMatchesNobody) {
  const TestProcess server({kStubborn}, {Marker("")});
  server.WaitForPids();
  FeedWatchdog("", "");
  EXPECT_TRUE(IsAlive(server.pid()));
}

}  // namespace
}  // namespace upgrade_gate::server
