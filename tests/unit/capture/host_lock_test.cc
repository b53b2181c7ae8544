#include "framework/capture/host_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

namespace upgrade_gate::capture {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StrEq;

class HostLockTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "host-lock-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path file() const { return folder_ / "host.lock"; }
  std::string place() const { return "host lock " + file().string() + ": "; }
  std::string me() const { return "pid " + std::to_string(getpid()) + ", run folder /a/run"; }

  base::Result<HostLock> Acquire(WhenHeld when_held = WhenHeld::kFail,
                                 const fs::path& run = "/a/run") {
    return HostLock::Acquire({file(), when_held}, run, {clock_, interrupted_, say_});
  }
  std::string Refusal() {
    const auto lock = Acquire();
    return lock ? "not refused" : lock.error().message;
  }

  fs::path folder_;
  base::ManualClock clock_;
  std::function<bool()> interrupted_ = [] { return false; };
  std::vector<std::string> said_;
  const std::function<void(const std::string&)> say_ = [this](const std::string& line) {
    said_.push_back(line);
  };
};

TEST_F(HostLockTest, IsTakenFreedAndTakenAgain) {
  for (int i = 0; i < 2; ++i) {
    const auto lock = Acquire();
    ASSERT_TRUE(lock) << lock.error().message;
    const auto second = Acquire();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, base::ErrorKind::kInfrastructure);
    EXPECT_EQ(second.error().message,
              place() + "held by " + me() +
                  "; captures on one machine take turns: run this one when that has ended, or with "
                  "--host-lock wait");
  }
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(HostLockTest, EveryUserMayTakeItWhateverTheUmask) {
  const mode_t before = umask(077);
  { ASSERT_TRUE(Acquire()); }
  EXPECT_EQ(umask(before), mode_t{077}) << "the umask is what it was";
  struct stat info {};
  ASSERT_EQ(stat(file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0666U);
}

TEST_F(HostLockTest, NoServerInheritsIt) {
  const auto lock = Acquire();
  ASSERT_TRUE(lock);
  int descriptors = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (fs::read_symlink(entry.path(), error) != fs::canonical(file())) continue;
    ++descriptors;
    EXPECT_NE(fcntl(std::stoi(entry.path().filename().string()), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(descriptors, 1);
}

TEST_F(HostLockTest, AWaitSaysWhoAtOnceAndThenOnceAMinute) {
  auto held = Acquire(WhenHeld::kFail);
  ASSERT_TRUE(held);
  std::optional<HostLock> holder(std::move(*held));
  const base::Instant began = clock_.now();
  interrupted_ = [&] {
    if (clock_.now() - began >= std::chrono::seconds(130)) holder.reset();
    return false;
  };
  const auto lock = Acquire(WhenHeld::kWait, "/another");
  ASSERT_TRUE(lock) << lock.error().message;
  EXPECT_THAT(said_, ElementsAre(place() + "held by " + me() + ": waiting for it to end",
                                 place() + "still held by " + me() + ": waiting for 1 min",
                                 place() + "still held by " + me() + ": waiting for 2 min",
                                 place() + "free, going on"));
  EXPECT_LT(clock_.now() - began, std::chrono::seconds(131)) << "it is taken soon after";
}

TEST_F(HostLockTest, AnInterruptedWaitEnds) {
  const auto holder = Acquire();
  int asked = 0;
  interrupted_ = [&] { return ++asked == 3; };
  const auto lock = Acquire(WhenHeld::kWait);
  ASSERT_FALSE(lock);
  EXPECT_EQ(lock.error().kind, base::ErrorKind::kInfrastructure);
  EXPECT_EQ(lock.error().message, place() + "interrupted while waiting for " + me() +
                                      ": nothing was booted, run the same command again");
}

TEST_F(HostLockTest, WhatTheFileSaysIsShownVisiblyAndCapped) {
  const auto holder = Acquire();
  ASSERT_TRUE(holder);
  const auto say = [&](const std::string& text) {
    const base::Fd fd(open(file().c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    ASSERT_EQ(write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  };
  say("pid 1\x1b[2J\nmore");
  EXPECT_THAT(Refusal(), testing::HasSubstr("held by pid 1\\x1b[2J; captures"));
  say("");
  EXPECT_THAT(Refusal(), testing::HasSubstr("held by a process that has not said who it is;"));
  say(std::string(100'000, 'x'));
  EXPECT_LT(Refusal().size(), 1000U);
}

TEST_F(HostLockTest, AFileThatWasReplacedIsNotTheLock) {
  const auto first = Acquire();
  ASSERT_TRUE(first);
  fs::remove(file());
  const auto second = Acquire();
  ASSERT_TRUE(second) << "whoever removes the file has removed the lock";
  EXPECT_FALSE(Acquire());
}

TEST_F(HostLockTest, WhatIsNoPlainFileIsRefusedAndLeftAlone) {
  const std::string advice = "; remove it, or name another file with UPGRADE_GATE_HOST_LOCK";
  const fs::path victim = folder_ / "victim";
  const auto write_victim = [&] {
    const base::Status written = base::WriteFile(victim, "precious");
    ASSERT_TRUE(written);
  };
  write_victim();
  fs::create_symlink(victim, file());
  EXPECT_THAT(Refusal(), StrEq(place() + "is a symbolic link, which is not followed" + advice));
  fs::remove(file());
  fs::create_symlink(folder_ / "nowhere", file());
  EXPECT_THAT(Refusal(), StrEq(place() + "is a symbolic link, which is not followed" + advice));
  EXPECT_FALSE(fs::exists(folder_ / "nowhere"));
  fs::remove(file());
  fs::create_hard_link(victim, file());
  EXPECT_THAT(Refusal(), StrEq(place() + "has a second name (hard link)" + advice));
  fs::remove(file());
  EXPECT_EQ(base::ReadFile(victim, 100).value(), "precious");
  ASSERT_EQ(mkfifo(file().c_str(), 0666), 0);
  EXPECT_THAT(Refusal(), StrEq(place() + "is not a regular file" + advice));
  fs::remove(file());
  fs::create_directory(file());
  EXPECT_THAT(Refusal(), StrEq(place() + "is not a regular file" + advice));
  fs::remove(file());
  fs::remove_all(folder_);
  EXPECT_THAT(Refusal(), StrEq(place() + "cannot open: No such file or directory" + advice));
}

TEST(HostLockFile, IsTheVariablesAbsolutePathOrTheDefault) {
  EXPECT_EQ(HostLockFile(nullptr).value(), "/tmp/upgrade-gate-host.lock");
  EXPECT_EQ(HostLockFile("/shared/lock").value(), "/shared/lock");
  for (const char* wrong : {"", "lock", "./lock", "/shared/"}) {
    const auto file = HostLockFile(wrong);
    ASSERT_FALSE(file) << wrong;
    EXPECT_EQ(file.error().kind, base::ErrorKind::kUsage);
    EXPECT_EQ(file.error().message, std::string("UPGRADE_GATE_HOST_LOCK: must be the absolute path "
                                                "of a file, not \"") +
                                        wrong + "\"");
  }
}

}  // namespace
}  // namespace upgrade_gate::capture
