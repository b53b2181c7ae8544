#include "framework/capture/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "framework/base/compression.h"
#include "framework/base/file.h"
#include "framework/evidence/store.h"

namespace upgrade_gate::capture {
namespace {

using evidence::BootRecord;
using evidence::RoundRecord;
using evidence::StopReason;
using testing::ElementsAre;
using testing::IsEmpty;

class RunStateTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("run-state-" + std::string(test->name()) + "-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_ / "evidence" / "rounds");
    std::filesystem::create_directories(folder_ / "evidence" / "boots");
    plan_.workload.cases.resize(2);
    plan_.workload.cases[0].name = "a";
    plan_.workload.cases[1].name = "b";
    for (const char* arm : {"baseline", "candidate"}) {
      plan_.order.push_back({.arm = arm, .location = {}, .cases = {"a", "b"}, .rounds = 2});
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static RoundRecord Round(int step, int boot, const std::string& case_name, int round) {
    RoundRecord record;
    record.case_name = case_name;
    record.arm = step == 1 ? "baseline" : "candidate";
    record.boot = boot;
    record.step = step;
    record.round = round;
    record.planned = 1;
    record.concurrency = 1;
    record.started_at = "2026-01-01T00:00:00.000Z";
    record.duration = std::chrono::seconds(1);
    evidence::RequestRecord request;
    request.body_sha256 = std::string(64, 'a');
    request.prompt_sha256 = std::string(64, 'b');
    request.input_tokens = 1;
    request.output_tokens = 1;
    request.failure = evidence::Failure{evidence::FailureKind::kTransport, "refused"};
    record.requests = {request};
    return record;
  }

  static BootRecord Boot(int number, int step) {
    BootRecord boot;
    boot.number = number;
    boot.step = step;
    boot.arm = step == 1 ? "baseline" : "candidate";
    boot.host = "host";
    boot.client_sha256 = std::string(64, 'c');
    boot.started_at = "2026-01-01T00:00:00.000Z";
    boot.exit = "exit code 0";
    return boot;
  }

  void Write(const RoundRecord& round) {
    const auto written = evidence::WriteRound(layout(), round, {});
    ASSERT_TRUE(written) << written.error().message;
  }
  void Write(const BootRecord& boot) {
    const auto written = evidence::WriteBoot(layout(), boot);
    ASSERT_TRUE(written) << written.error().message;
  }

  std::vector<StepState> Prepare() {
    auto steps = PrepareSteps(plan_, layout());
    EXPECT_TRUE(steps) << steps.error().message;
    return steps ? *steps : std::vector<StepState>{};
  }

  int Superseded() {
    const auto rounds = evidence::ReadRounds(layout(), false);
    EXPECT_TRUE(rounds) << rounds.error().message;
    int count = 0;
    for (const RoundRecord& round : *rounds) count += round.superseded ? 1 : 0;
    return count;
  }

  evidence::Layout layout() const { return evidence::Layout(folder_); }

  plan::ResolvedPlan plan_;
  std::filesystem::path folder_;
};

TEST_F(RunStateTest, InAnEmptyFolderEverythingIsPending) {
  const auto steps = Prepare();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_THAT(steps[0].pending, ElementsAre("a", "b"));
  EXPECT_THAT(steps[1].pending, ElementsAre("a", "b"));
  EXPECT_EQ(steps[0].resumes, 0);
}

TEST_F(RunStateTest, AWholeCaseIsKeptAndAnInterruptedOneIsSuperseded) {
  Write(Boot(1, 1));
  Write(Round(1, 1, "a", 1));
  Write(Round(1, 1, "a", 2));
  Write(Round(1, 1, "b", 1));
  const auto steps = Prepare();
  EXPECT_THAT(steps[0].pending, ElementsAre("b"));
  EXPECT_EQ(steps[0].resumes, 1);
  EXPECT_THAT(steps[1].pending, ElementsAre("a", "b"));
  EXPECT_EQ(Superseded(), 1);
}

TEST_F(RunStateTest, TheLogThatAKilledRunnerLeftBecomesItsBoots) {
  Write(Boot(1, 1));
  Write(Boot(2, 2));
  std::filesystem::create_directories(folder_ / "logs");
  const auto live = layout().live_log(1, "baseline");
  ASSERT_TRUE(base::WriteFile(live, "line one\nline tw"));
  const auto taken = TakeLeftLogs(layout());
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_FALSE(std::filesystem::exists(live));
  const auto log = base::ReadFile(layout().boot(1, "baseline") / "server.log.zst", 1 << 20);
  ASSERT_TRUE(log) << log.error().message;
  EXPECT_EQ(*base::Decompress(*log, 1 << 20), "line one\nline tw");
  const auto boots = evidence::ReadBoots(layout());
  EXPECT_EQ((*boots)[0].log_written, 16U);
  EXPECT_EQ((*boots)[0].log_sha256, base::Sha256Of("line one\nline tw"));
  EXPECT_EQ((*boots)[1].log_sha256, "");
  EXPECT_FALSE(std::filesystem::exists(layout().boot(2, "candidate") / "server.log.zst"));
}

TEST_F(RunStateTest, ALogThatIsInTheEvidenceAlreadyStaysAsItIs) {
  Write(Boot(1, 1));
  ASSERT_TRUE(evidence::WriteServerLog(layout(), Boot(1, 1), "whole"));
  std::filesystem::create_directories(folder_ / "logs");
  ASSERT_TRUE(base::WriteFile(layout().live_log(1, "baseline"), "wh"));
  ASSERT_TRUE(TakeLeftLogs(layout()));
  const auto log = base::ReadFile(layout().boot(1, "baseline") / "server.log.zst", 1 << 20);
  EXPECT_EQ(*base::Decompress(*log, 1 << 20), "whole");
  EXPECT_FALSE(std::filesystem::exists(layout().live_log(1, "baseline")));
}

TEST_F(RunStateTest, ABootThatChangedWhileItMeasuredIsNamed) {
  BootRecord changed = Boot(1, 1);
  changed.identity_change = "image sha256:a at the start, sha256:b at the end";
  BootRecord idle = Boot(2, 2);
  idle.identity_change = "image sha256:a at the start, sha256:c at the end";
  EXPECT_THAT(FindBrokenBoots({changed, idle}, {Round(1, 1, "a", 1)}),
              ElementsAre("boot 1 (baseline) was not one server from its start to its end: image "
                          "sha256:a at the start, sha256:b at the end"));
  RoundRecord superseded = Round(1, 1, "a", 1);
  superseded.superseded = true;
  EXPECT_THAT(FindBrokenBoots({changed}, {superseded}), IsEmpty());
}

TEST_F(RunStateTest, ABootThatWasLostAfterItsLastRequestIsNotWhole) {
  BootRecord lost = Boot(1, 1);
  lost.stopped = StopReason::kServiceLost;
  EXPECT_THAT(FindBrokenBoots({lost}, {Round(1, 1, "a", 1)}),
              ElementsAre("boot 1 (baseline) was lost"));
  // What it had measured before its engine ended it is whole, and the rest is resumed.
  BootRecord taken_away = lost;
  taken_away.stopped = StopReason::kInfrastructure;
  EXPECT_THAT(FindBrokenBoots({taken_away}, {Round(1, 1, "a", 1)}), IsEmpty());
  // One that never became ready has measured nothing, and is resumed.
  EXPECT_THAT(FindBrokenBoots({lost}, {}), IsEmpty());
}

TEST_F(RunStateTest, PreparingTwiceChangesNothingMore) {
  Write(Boot(1, 1));
  Write(Round(1, 1, "b", 1));
  Prepare();
  EXPECT_THAT(Prepare()[0].pending, ElementsAre("a", "b"));
  EXPECT_EQ(Superseded(), 1);
}

TEST_F(RunStateTest, RoundsOfTwoBootsAreNotOneCase) {
  Write(Boot(1, 1));
  Write(Boot(2, 1));
  Write(Round(1, 1, "a", 1));
  Write(Round(1, 2, "a", 2));
  EXPECT_THAT(Prepare()[0].pending, ElementsAre("a", "b"));
  EXPECT_EQ(Superseded(), 2);
}

TEST_F(RunStateTest, ACaseThatItsGuardEndedIsDone) {
  Write(Boot(1, 1));
  RoundRecord round = Round(1, 1, "a", 1);
  round.stopped = StopReason::kGuard;
  round.stop_detail = "5 failures in a row";
  Write(round);
  EXPECT_THAT(Prepare()[0].pending, ElementsAre("b"));
  EXPECT_EQ(Superseded(), 0);
}

TEST_F(RunStateTest, ACaseThatLostItsServerIsNotDone) {
  Write(Boot(1, 1));
  Write(Round(1, 1, "a", 1));
  RoundRecord round = Round(1, 1, "a", 2);
  round.stopped = StopReason::kServiceLost;
  round.stop_detail = "signal 9";
  Write(round);
  EXPECT_THAT(Prepare()[0].pending, ElementsAre("a", "b"));
  EXPECT_EQ(Superseded(), 2);
}

TEST_F(RunStateTest, ABootThatNeverSaidHowItEndedIsMarkedInterrupted) {
  BootRecord boot = Boot(1, 1);
  boot.exit.clear();
  Write(boot);
  Prepare();
  const auto boots = evidence::ReadBoots(layout());
  ASSERT_TRUE(boots);
  EXPECT_EQ((*boots)[0].stopped, StopReason::kInterrupted);
}

TEST_F(RunStateTest, GapsNameStepArmCaseAndWhatIsMissing) {
  EXPECT_THAT(FindGaps(plan_, {Round(1, 1, "a", 1), Round(1, 1, "a", 2), Round(1, 1, "b", 2)}),
              ElementsAre("boot step 1 (baseline), case b: round 1 is missing",
                          "boot step 2 (candidate), case a: 0 of 2 rounds measured",
                          "boot step 2 (candidate), case b: 0 of 2 rounds measured"));
}

TEST_F(RunStateTest, NoGapsWhenEveryRoundIsThereOnce) {
  std::vector<RoundRecord> rounds;
  for (const int step : {1, 2}) {
    for (const char* name : {"a", "b"}) {
      for (const int round : {1, 2}) rounds.push_back(Round(step, step, name, round));
    }
  }
  EXPECT_THAT(FindGaps(plan_, rounds), IsEmpty());
  rounds.front().superseded = true;
  EXPECT_FALSE(FindGaps(plan_, rounds).empty());
}

}  // namespace
}  // namespace upgrade_gate::capture
