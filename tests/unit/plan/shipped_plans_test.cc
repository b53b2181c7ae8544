// Plans on disk: loading, and the plans that ship with the project.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>

#include "framework/base/exit_code.h"
#include "framework/base/file.h"
#include "tests/unit/plan/plan_text.h"

namespace upgrade_gate::plan {
namespace {

namespace fs = std::filesystem;

class LoadPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("plan_test." + std::to_string(getpid()));
    ASSERT_TRUE(base::CreateDirectories(folder_));
  }
  void TearDown() override { ASSERT_TRUE(base::RemoveAll(folder_)); }

  fs::path Write(const std::string& name, std::string_view text) {
    EXPECT_TRUE(base::WriteFile(folder_ / name, text));
    return folder_ / name;
  }

  fs::path folder_;
};

TEST_F(LoadPlanTest, KeepsTheBytesTheNameAndTheFolder) {
  const fs::path path = Write("gate.yaml", kProcessPlan);
  const auto loaded = LoadPlan(path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->file, path.string());
  EXPECT_EQ(loaded->directory, folder_);
  EXPECT_EQ(loaded->yaml, kProcessPlan);
  EXPECT_EQ(loaded->plan.name, "demo");
}

TEST_F(LoadPlanTest, FollowsALinkThatTheUserNames) {
  Write("real.yaml", kProcessPlan);
  fs::create_symlink("real.yaml", folder_ / "link.yaml");
  const auto loaded = LoadPlan(folder_ / "link.yaml");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->file, (folder_ / "link.yaml").string());
}

TEST_F(LoadPlanTest, AMissingFileIsAUsageError) {
  const auto loaded = LoadPlan(folder_ / "none.yaml");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().message,
            (folder_ / "none.yaml").string() + ": No such file or directory");
  EXPECT_EQ(base::ExitCodeOf(loaded.error().kind), base::ExitCode::kUsage);
}

TEST_F(LoadPlanTest, AFolderAndAHugeFileAreUsageErrors) {
  const auto folder = LoadPlan(folder_);
  ASSERT_FALSE(folder);
  EXPECT_EQ(base::ExitCodeOf(folder.error().kind), base::ExitCode::kUsage);
  const auto huge = LoadPlan(Write("huge.yaml", std::string(2 << 20, '#')));
  ASSERT_FALSE(huge);
  EXPECT_EQ(base::ExitCodeOf(huge.error().kind), base::ExitCode::kUsage);
}

TEST_F(LoadPlanTest, ErrorsNameTheFileAsTheUserDid) {
  const fs::path path = Write("bad.yaml", Edit(kProcessPlan, "case: short", "case: shrot"));
  const auto loaded = LoadPlan(path);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().message,
            path.string() + ":18:24: unknown case \"shrot\" (did you mean \"short\"?)");
  EXPECT_EQ(base::ExitCodeOf(loaded.error().kind), base::ExitCode::kUsage);
}

TEST(ShippedPlans, VllmDockerResolves) {
  const auto loaded = LoadPlan(fs::path(UPGRADE_GATE_PLANS_DIR) / "vllm-docker.yaml");
  ASSERT_TRUE(loaded) << loaded.error().message;
  const ResolvedPlan& plan = loaded->plan;
  EXPECT_EQ(plan.server.launcher, LauncherKind::kDocker);
  EXPECT_EQ(plan.server.gpus, "all");
  EXPECT_EQ(plan.arms.size(), 3U);
  EXPECT_NE(plan.baseline()->image, plan.candidate()->image);
  // The attribution arm is the candidate with exactly one thing undone.
  const Arm* attribution = plan.FindArm("no-replay");
  ASSERT_NE(attribution, nullptr);
  EXPECT_EQ(attribution->image, plan.candidate()->image);
  std::vector<std::string> command = plan.candidate()->command;
  command.push_back("--no-swa-bounded-replay");
  EXPECT_EQ(attribution->command, command);
  EXPECT_THAT(plan.baseline()->command, testing::Contains("--disable-log-requests"));
  EXPECT_THAT(plan.candidate()->command, testing::Not(testing::Contains("--disable-log-requests")));
  EXPECT_EQ(plan.order.size(), 4U);
  EXPECT_NE(plan.FindGate("throughput.8k-256-c8.min_gain"), nullptr);
  EXPECT_NE(plan.FindGate("failures.empty_output.candidate"), nullptr);
  EXPECT_NE(plan.FindGate("provenance"), nullptr);
}

TEST(ShippedPlans, EveryLauncherTemplateResolves) {
  std::set<std::string> names;
  const fs::path folder = fs::path(UPGRADE_GATE_PLANS_DIR) / "launchers";
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    SCOPED_TRACE(entry.path().filename());
    names.insert(entry.path().stem());
    const auto loaded = LoadPlan(entry.path());
    ASSERT_TRUE(loaded) << loaded.error().message;
    const ResolvedPlan& plan = loaded->plan;
    ASSERT_EQ(plan.server.launcher, LauncherKind::kCommand);
    const CommandSettings& launch = plan.server.command_launcher;
    EXPECT_THAT(launch.start, testing::Contains("$COMMAND"));
    EXPECT_TRUE(plan.deadline.has_value());
    for (const Arm& arm : plan.arms) {
      // Each says how far its identity goes: a file that is hashed, or a claim to compare.
      EXPECT_TRUE(arm.image_file.has_value() || !arm.identity.empty());
      EXPECT_NE(arm.image_file.has_value(), !arm.image.empty());
      EXPECT_EQ(arm.image_file.has_value(), !arm.built_from.empty());
    }
    // Programs beside the plan ship with it and can be run.
    for (const auto& argv : {launch.start, launch.stop, launch.cleanup, launch.address}) {
      if (argv.empty() || !argv[0].starts_with("./")) continue;
      const auto permissions = fs::status(folder / argv[0]).permissions();
      EXPECT_NE(permissions & fs::perms::owner_exec, fs::perms::none) << argv[0];
    }
  }
  EXPECT_THAT(names,
              testing::ElementsAre("apptainer", "kubectl", "nerdctl", "podman", "srun-pyxis"));
}

TEST(ShippedPlans, VllmCpuResolves) {
  const auto loaded = LoadPlan(fs::path(UPGRADE_GATE_PLANS_DIR) / "vllm-cpu.yaml");
  ASSERT_TRUE(loaded) << loaded.error().message;
  const ResolvedPlan& plan = loaded->plan;
  EXPECT_EQ(plan.server.launcher, LauncherKind::kProcess);
  // Two versions under one command, on one model.
  EXPECT_EQ(plan.baseline()->command, plan.candidate()->command);
  EXPECT_NE(plan.baseline()->executable->path, plan.candidate()->executable->path);
  ASSERT_EQ(plan.baseline()->files.size(), 3U);
  ASSERT_EQ(plan.candidate()->files.size(), 3U);
  EXPECT_NE(plan.baseline()->files[0].path, plan.candidate()->files[0].path);
  for (const std::size_t model : {1U, 2U}) {
    EXPECT_EQ(plan.baseline()->files[model].path, plan.candidate()->files[model].path);
  }
  EXPECT_NE(plan.FindGate("provenance"), nullptr);
}

}  // namespace
}  // namespace upgrade_gate::plan
