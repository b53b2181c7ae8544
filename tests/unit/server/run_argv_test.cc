#include "framework/server/run_argv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/processes.h"

namespace upgrade_gate::server {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

const std::vector<std::string> kPath = {"PATH=/usr/bin:/bin"};

base::Result<std::string> Call(std::vector<std::string> argv, CommandLimits limits = {}) {
  return RunCommand({std::move(argv), kPath, "/"}, limits);
}

std::string ErrorOf(const base::Result<std::string>& result) {
  return result ? "no error: " + *result : result.error().message;
}

TEST(RunCommandTest, GivesStandardOutputAndPassesNoShell) {
  EXPECT_EQ(*Call({"printf", "%s\n", "$HOME; `id`"}), "$HOME; `id`\n");
  EXPECT_EQ(*Call({"env"}), "PATH=/usr/bin:/bin\n") << "nothing else is passed on";
  EXPECT_EQ(*Call({"pwd"}), "/\n");
  EXPECT_EQ(*Call({"sh", "-c", "echo out; echo err >&2"}), "out\n");
}

TEST(RunCommandTest, AnErrorHasTheExitAndTheLastWords) {
  EXPECT_EQ(ErrorOf(Call({"sh", "-c", "echo first >&2; printf 'a\\033[1m\\n' >&2; exit 3"})),
            "sh: exit code 3: a\\x1b[1m");
  EXPECT_EQ(ErrorOf(Call({"sh", "-c", "echo only out; exit 1"})), "sh: exit code 1: only out");
  EXPECT_EQ(ErrorOf(Call({"sh", "-c", "kill -9 $$"})), "sh: signal 9 (Killed)");
  EXPECT_EQ(ErrorOf(Call({"no-such-program"})),
            "no-such-program: there is no such program in PATH (/usr/bin:/bin)");
  EXPECT_THAT(ErrorOf(Call({"/no/such/program"})),
              StartsWith("/no/such/program: cannot be executed"));
  EXPECT_THAT(ErrorOf(Call({std::string("a\0b", 3)})), HasSubstr("zero byte"));
}

TEST(RunCommandTest, AtItsLimitsItsGroupIsKilled) {
  CommandLimits limits;
  limits.time = std::chrono::milliseconds(300);
  EXPECT_EQ(ErrorOf(Call({"sh", "-c", "echo waiting >&2; sleep 1000"}, limits)),
            "sh: did not end within 300 ms: waiting");
  limits = {};
  limits.interrupted = [] { return true; };
  EXPECT_EQ(ErrorOf(Call({"sleep", "1000"}, limits)), "sleep: interrupted");
  limits = {};
  limits.output_bytes = 1000;
  EXPECT_THAT(ErrorOf(Call({"yes"}, limits)), StartsWith("yes: wrote more than 1000 bytes"));
  EXPECT_EQ(Call({"head", "-c", "1000", "/dev/zero"}, limits)->size(), 1000U);
  EXPECT_THAT(ErrorOf(Call({"head", "-c", "1001", "/dev/zero"}, limits)),
              StartsWith("head: wrote more than 1000 bytes"));
}

TEST(RunCommandTest, DoesNotWaitForWhatItLeavesInTheBackground) {
  const auto said = Call({"sh", "-c", "sleep 1000 & echo $!"});
  ASSERT_TRUE(said) << said.error().message;
  const pid_t left = std::stoi(*said);
  EXPECT_TRUE(testing_support::IsAlive(left));
  kill(left, SIGKILL);
}

TEST(RunCommandTest, FindsARelativeProgramFromItsFolder) {
  const fs::path folder = fs::path(testing::TempDir()) / ("argv." + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "own") << "#!/bin/sh\necho $0\n";
  fs::permissions(folder / "own", fs::perms::owner_all);
  const auto said = RunCommand({{"./own"}, kPath, folder}, {});
  EXPECT_TRUE(said) << said.error().message;
  fs::remove_all(folder);
}

TEST(SubstituteTest, ReplacesWholeNamesOnly) {
  const std::map<std::string, std::string> values = {{"PORT", "80"}, {"RUN", "$PORT"}};
  EXPECT_EQ(Substitute("a$PORT-$RUN.$PORTS$$PORT $ $OTHER", values),
            "a80-$PORT.$PORTS$80 $ $OTHER");
}

base::Result<std::map<std::string, std::string>> Ask(const std::string& printed) {
  return AskIdentity({{"printf", "%s", printed}, kPath, "/"}, [] { return false; });
}

TEST(AskIdentityTest, ReadsAnObjectOfTexts) {
  EXPECT_TRUE(AskIdentity({}, [] { return false; })->empty());
  const std::map<std::string, std::string> expected = {{"image", "sha256:1"},
                                                       {"version", "1\\x0a2"}};
  EXPECT_EQ(*Ask(R"({"version": "1\n2", "image": "sha256:1"})"), expected);
}

TEST(AskIdentityTest, SaysWhatIsWrong) {
  const auto error = [](const std::string& printed) {
    const auto asked = Ask(printed);
    return asked ? "no error" : asked.error().message;
  };
  EXPECT_EQ(error("[]"), "identity command: printf: what it printed: is not a JSON object");
  EXPECT_EQ(error(R"({"a": 1})"), "identity command: printf: what it printed: \"a\" is not a text");
  EXPECT_THAT(error("{"),
              StartsWith("identity command: printf: what it printed: not valid JSON: byte "));
  EXPECT_EQ(error("{\"a\": \"" + std::string(5000, 'x') + "\"}"),
            "identity command: printf: what it printed: \"a\" is longer than 4096 bytes");
  const auto failed = AskIdentity({{"false"}, kPath, "/"}, [] { return false; });
  EXPECT_EQ(failed.error().message, "identity command: false: exit code 1");
}

}  // namespace
}  // namespace upgrade_gate::server
