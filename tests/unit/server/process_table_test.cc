#include "framework/server/process_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/processes.h"

namespace upgrade_gate::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;
using testing_support::IsAlive;
using testing_support::TestProcess;

constexpr const char* kStubborn = UPGRADE_GATE_STUBBORN;

std::vector<pid_t> Pids(const base::Result<std::vector<Process>>& processes) {
  std::vector<pid_t> pids;
  for (const Process& process : processes.value()) pids.push_back(process.pid);
  return pids;
}

TEST(ProcessTableTest, ReadsAProcessWhoseNameLooksLikeFields) {
  char before[16] = {};
  prctl(PR_GET_NAME, before);
  prctl(PR_SET_NAME, "a) Z 1 (b");
  const auto self = ReadProcess(getpid());
  prctl(PR_SET_NAME, before);
  ASSERT_TRUE(self.has_value());
  EXPECT_EQ(self->name, "a) Z 1 (b");
  EXPECT_EQ(self->parent, getppid());
  EXPECT_EQ(self->group, getpgrp());
  EXPECT_GT(self->start_time, 0U);
  EXPECT_TRUE(self->alive());
}

TEST(ProcessTableTest, HasNothingForNumbersThatAreNoProcess) {
  EXPECT_FALSE(ReadProcess(0).has_value());
  EXPECT_FALSE(ReadProcess(-1).has_value());
  EXPECT_FALSE(ReadProcess(1 << 30).has_value());
}

TEST(ProcessTableTest, AZombieIsNotAlive) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  EXPECT_TRUE(testing_support::Eventually([&] { return !IsAlive(pid); }));
  EXPECT_TRUE(ReadProcess(pid).has_value());
  waitpid(pid, nullptr, 0);
}

TEST(ProcessTableTest, ShowsNamesFitForATerminal) {
  Process process;
  process.pid = 7;
  process.name = "x\x1b[2J";
  EXPECT_EQ(Describe(process), "pid 7 (x\\x1b[2J)");
}

TEST(FindLivingTest, FindsGroupMembersAndWhatDescendsFromThem) {
  const TestProcess server({kStubborn, "--worker", "--own-session", "--hidden"});
  const std::vector<pid_t> pids = server.WaitForPids();
  ASSERT_EQ(pids.size(), 4U);
  const Belonging group{{{server.pid(), ReadProcess(server.pid())->start_time}}};
  EXPECT_THAT(Pids(FindLiving(group)), UnorderedElementsAreArray(pids));
}

TEST(FindLivingTest, FindsByTheWholeMarkerOnly) {
  const TestProcess server({kStubborn}, {"X=1", "UPGRADE_GATE_RUN=run-1"});
  server.WaitForPids();
  EXPECT_THAT(Pids(FindLiving({{}, "UPGRADE_GATE_RUN=run-1"})), ElementsAre(server.pid()));
  EXPECT_THAT(Pids(FindLiving({{}, "UPGRADE_GATE_RUN=run-"})), IsEmpty());
  EXPECT_THAT(Pids(FindLiving({{}, "UPGRADE_GATE_RUN=run-11"})), IsEmpty());
}

TEST(FindLivingTest, AnEmptyMarkerMatchesNobody) {
  const TestProcess server({kStubborn}, {});
  server.WaitForPids();
  EXPECT_THAT(Pids(FindLiving({})), IsEmpty());
}

TEST(FindLivingTest, AGroupNumberThatWasGivenToAnotherLeaderIsNotOurs) {
  const TestProcess server({kStubborn});
  server.WaitForPids();
  const std::uint64_t start = ReadProcess(server.pid())->start_time;
  EXPECT_THAT(Pids(FindLiving({{{server.pid(), start - 1}}})), IsEmpty());
  EXPECT_THAT(Pids(FindLiving({{{server.pid(), start}}})), ElementsAre(server.pid()));
}

TEST(FindLivingTest, NeverFindsTheCaller) {
  const Belonging ours{{{getpgrp(), 0}}, {}, {*ReadProcess(getpid())}};
  for (const pid_t pid : Pids(FindLiving(ours))) EXPECT_NE(pid, getpid());
}

TEST(SignalTest, DoesNotReachAStrangerWithTheSameNumber) {
  const TestProcess server({kStubborn});
  server.WaitForPids();
  Process stranger = *ReadProcess(server.pid());
  stranger.start_time -= 1;
  EXPECT_FALSE(Signal(stranger, SIGKILL).valid());
  EXPECT_TRUE(IsAlive(server.pid()));
}

TEST(KillAllTest, EndsWhatIgnoresTermAndWhatIsStopped) {
  const TestProcess server({kStubborn, "--ignore-term", "--worker", "--own-session", "--hidden"});
  const std::vector<pid_t> pids = server.WaitForPids();
  ASSERT_EQ(pids.size(), 4U);
  kill(pids[2], SIGSTOP);
  const Belonging group{{{server.pid(), ReadProcess(server.pid())->start_time}}};
  const auto outcome = KillAll(group, base::SystemClock(), testing_support::kPatience);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->killed, 4);
  EXPECT_THAT(outcome->left, IsEmpty());
  for (const pid_t pid : pids) EXPECT_FALSE(IsAlive(pid));
}

TEST(KillAllTest, NamesWhatIsLeftWhenTimeIsUp) {
  const TestProcess server({kStubborn});
  server.WaitForPids();
  const Belonging group{{{server.pid(), ReadProcess(server.pid())->start_time}}};
  const auto outcome = KillAll(group, base::SystemClock(), base::Nanoseconds(0));
  ASSERT_TRUE(outcome.has_value());
  ASSERT_EQ(outcome->left.size(), 1U);
  EXPECT_EQ(outcome->left[0].pid, server.pid());
}

}  // namespace
}  // namespace upgrade_gate::server
