#include "framework/server/host_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/unit/server/fake_host.h"

namespace upgrade_gate::server {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kMib = 1024;  // in KiB
constexpr std::int64_t kTotal = 131'072 * kMib;
constexpr std::int64_t kAvailable = 120'000 * kMib;

class HostMemoryTest : public ::testing::Test {
 protected:
  HostMemoryTest() {
    PutLevel(kAvailable);
    PutProcess(1, "systemd", 0, 10 * kMib);
    PutProcess(800, "postgres", 999, 2'000 * kMib);
    host_.Put("proc/sysvipc/shm", kHeading);
    std::filesystem::create_directories(host_.Path("dev/shm"));
  }
  void PutLevel(std::int64_t available, const std::string& more = "") {
    host_.Put("proc/meminfo", fmt::format("MemTotal:       {} kB\nMemFree: 5 kB\n"
                                          "MemAvailable:   {} kB\nCached:  77 kB\n{}",
                                          kTotal, available, more));
  }
  void PutProcess(int pid, const std::string& name, int user, std::int64_t kib) {
    const std::string folder = fmt::format("proc/{}/", pid);
    host_.Put(folder + "status",
              fmt::format("Name:\t{}\nUmask:\t0022\nUid:\t{}\t{}\t{}\t{}\nVmRSS:\t{} kB\n"
                          "RssAnon:\t{} kB\nRssFile:\t999999999 kB\nRssShmem:\t0 kB\n",
                          name, user, user, user, user, kib, kib));
    host_.Put(folder + "maps", "7f00-7f01 r-xp 00000000 08:01 77   /usr/lib/x.so\n");
    std::filesystem::create_directories(host_.Path(folder + "fd"));
  }
  // A file that takes as much as it says; its line in a process' maps.
  std::string PutShared(const std::string& name, int mib) {
    host_.Put("dev/shm/" + name, "");
    const base::Fd file(open(host_.Path("dev/shm/" + name).c_str(), O_RDWR | O_CLOEXEC));
    if (mib > 0) {
      EXPECT_EQ(posix_fallocate(file.get(), 0, off_t{mib} << 20), 0);
    }
    struct stat info {};
    EXPECT_EQ(stat(host_.Path("dev/shm/" + name).c_str(), &info), 0);
    return fmt::format("7f10-7f20 rw-s 00000000 {:02x}:{:02x} {}    /dev/shm/{}\n",
                       major(info.st_dev), minor(info.st_dev), info.st_ino, name);
  }
  void PutSegment(int id, int attached, std::uint64_t bytes) {
    host_.Put(
        "proc/sysvipc/shm",
        kHeading + fmt::format("          0 {:10} 600 {:21} 4711 4712 {:6} 1000 1000 1000 1000 "
                               "1764460800 1764460900 1764460700 {:21} {:21}\n",
                               id, bytes * 3, attached, bytes, 0));
  }
  HostMemory Before() {
    const auto memory = ReadHostMemory(host_.reader);
    EXPECT_TRUE(memory) << memory.error().message;
    return memory ? *memory : HostMemory{};
  }
  std::string Checked(const HostMemory& before) {
    const auto checked = CheckMemory(host_.reader, before, clock_, [] { return false; });
    return checked ? "back" : host_.Shown(checked.error().message);
  }

  const std::string kHeading =
      "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  "
      "cgid "
      "     atime      dtime      ctime                   rss                  swap\n";
  FakeHost host_;
  base::ManualClock clock_;
};

TEST_F(HostMemoryTest, WhatIsBackIsBackAtOnce) {
  const HostMemory before = Before();
  EXPECT_EQ(before.total_kib, kTotal);
  EXPECT_EQ(before.available_kib, kAvailable);
  EXPECT_EQ(before.processes.at(800).kib, 2'000 * kMib);
  const base::Instant start = clock_.now();
  EXPECT_EQ(Checked(before), "back");
  PutLevel(kAvailable + 4'000 * kMib);  // more than before
  EXPECT_EQ(Checked(before), "back");
  EXPECT_EQ(clock_.now(), start);
}

TEST_F(HostMemoryTest, TheSlackIsFivePercentOr4GiB) {
  EXPECT_EQ(MemorySlackKib(16'384 * kMib), 4'096 * kMib);
  EXPECT_EQ(MemorySlackKib(81'920 * kMib), 4'096 * kMib);
  EXPECT_EQ(MemorySlackKib(2'048'000 * kMib), 102'400 * kMib);
  const HostMemory before = Before();
  PutLevel(kAvailable - kTotal / 20);
  EXPECT_EQ(Checked(before), "back");
  PutLevel(kAvailable - kTotal / 20 - 1);
  EXPECT_THAT(Checked(before), HasSubstr("6,554 MiB less than before the first boot is available"));
}

TEST_F(HostMemoryTest, LostMemoryIsWaitedForAndItsHoldersAreNamed) {
  const HostMemory before = Before();
  PutLevel(kAvailable - 20'000 * kMib, "Shmem: 9437184 kB\n");
  PutProcess(4711, "VLLM::Worker\x1b[2J", 1000, 12'000 * kMib);
  PutProcess(800, "postgres", 999, 4'500 * kMib);
  PutProcess(900, "crumb", 0, 200 * kMib);
  PutProcess(901, "postgres", 999, 300 * kMib);
  const base::Instant start = clock_.now();
  EXPECT_EQ(Checked(before),
            "the host's memory has not come back: 20,000 MiB less than before the first boot is "
            "available, and 6,554 MiB may come and go; new since then: process 4711 "
            "VLLM::Worker\\x1b[2J of user 1000 (12,000 MiB), process 800 postgres of user 999 "
            "(2,500 MiB more), process 901 postgres of user 999 (300 MiB) and 1 more; end or "
            "remove what does not belong here, or measure when nobody else needs the memory");
  EXPECT_EQ(clock_.now() - start, std::chrono::seconds(30));
}

TEST_F(HostMemoryTest, MemoryThatComesBackInTimeIsWaitedFor) {
  const HostMemory before = Before();
  PutLevel(kAvailable - 20'000 * kMib);
  int looks = 0;
  const base::Instant start = clock_.now();
  const auto checked = CheckMemory(host_.reader, before, clock_, [&] {
    if (++looks == 7) PutLevel(kAvailable);
    return false;
  });
  EXPECT_TRUE(checked);
  EXPECT_EQ(clock_.now() - start, std::chrono::seconds(7));
  PutLevel(kAvailable - 20'000 * kMib);
  const base::Instant again = clock_.now();
  const auto interrupted = CheckMemory(host_.reader, before, clock_, [] { return true; });
  ASSERT_FALSE(interrupted);
  EXPECT_EQ(interrupted.error().message,
            "interrupted while waiting for the host's memory to come back; run the same command "
            "again");
  EXPECT_EQ(clock_.now(), again);
}

TEST_F(HostMemoryTest, MemoryThatNobodyShowsIsStillMissing) {
  const HostMemory before = Before();
  PutLevel(kAvailable - 8'000 * kMib);
  EXPECT_THAT(Checked(before), HasSubstr("; no process and no shared memory shows as much; end"));
}

TEST_F(HostMemoryTest, HugePagesStillTakenAreMissing) {
  PutLevel(kAvailable, "HugePages_Total: 8192\nHugePages_Free: 8192\nHugepagesize: 2048 kB\n");
  const HostMemory before = Before();
  PutLevel(kAvailable,
           "HugePages_Total: 8192\nHugePages_Free: 192\nHugePages_Surp: 0\n"
           "Hugepagesize: 2048 kB\n");
  EXPECT_THAT(Checked(before), HasSubstr("16,000 MiB less"));
  EXPECT_THAT(Checked(before), HasSubstr("new since then: huge pages (16,000 MiB);"));
  // Those that came on demand are missing from what is available, and count once.
  PutLevel(kAvailable,
           "HugePages_Total: 8192\nHugePages_Free: 192\nHugePages_Surp: 8000\n"
           "Hugepagesize: 2048 kB\n");
  EXPECT_EQ(Checked(before), "back");
}

TEST_F(HostMemoryTest, SharedMemoryThatNobodyHoldsIsNamed) {
  PutShared("old", 80);
  const HostMemory before = Before();
  EXPECT_EQ(Checked(before), "back");
  PutShared("psm_1a", 60);
  EXPECT_EQ(Checked(before), "back");  // crumbs
  std::filesystem::create_directories(host_.Path("dev/shm/nccl"));
  PutShared("nccl/x\x1b", 10);
  const std::string user = std::to_string(getuid());
  const base::Instant start = clock_.now();
  EXPECT_EQ(Checked(before),
            "shared memory that no process holds was left behind: /dev/shm/psm_1a of user " + user +
                " (60 MiB) and /dev/shm/nccl/x\\x1b of user " + user +
                " (10 MiB); remove it with rm or ipcrm -m, and run the same command again");
  EXPECT_EQ(clock_.now() - start, std::chrono::seconds(30));
}

TEST_F(HostMemoryTest, SharedMemoryOfALivingProcessIsItsOwn) {
  const HostMemory before = Before();
  const std::string maps = PutShared("psm_1a", 80);
  EXPECT_THAT(Checked(before), HasSubstr("/dev/shm/psm_1a"));
  host_.Put("proc/800/maps", maps);
  EXPECT_EQ(Checked(before), "back");
  host_.Put("proc/800/maps", "garbage /dev/shm/psm_1a\n1 2 3 4 5 /dev/shm/x\n");
  EXPECT_THAT(Checked(before), HasSubstr("/dev/shm/psm_1a"));
  std::filesystem::create_symlink(host_.Path("dev/shm/psm_1a"), host_.Path("proc/800/fd/3"));
  EXPECT_EQ(Checked(before), "back");
}

// Of a process that may not be looked into nobody knows what it holds.
TEST_F(HostMemoryTest, SharedMemoryOfAnotherUserWhoseProcessesAreHiddenMayBeHeld) {
  const HostMemory before = Before();
  const int owner = static_cast<int>(getuid());
  PutProcess(900, "me", owner + 1, kMib);
  std::filesystem::create_directory_symlink("900", host_.Path("proc/self"));
  PutShared("psm_1a", 80);
  host_.Remove("proc/800/maps");
  EXPECT_THAT(Checked(before), HasSubstr("/dev/shm/psm_1a"));  // a third user's is hidden
  PutProcess(801, "hidden", owner, kMib);
  host_.Remove("proc/801/fd");
  EXPECT_EQ(Checked(before), "back");
  host_.Put("proc/801/status", fmt::format("Name:\tdead\nState:\tZ (zombie)\nUid:\t{}\n", owner));
  EXPECT_THAT(Checked(before), HasSubstr("/dev/shm/psm_1a"));
  PutProcess(801, "hidden", owner, kMib);
  host_.Remove("proc/801/fd");
  PutProcess(900, "me", owner, kMib);
  EXPECT_THAT(Checked(before), HasSubstr("/dev/shm/psm_1a"));  // our own are no excuse
}

TEST_F(HostMemoryTest, AFileThatWasReplacedIsNew) {
  PutShared("psm_1a", 80);
  const HostMemory before = Before();
  // Kept, so that the new one cannot get its inode.
  std::filesystem::rename(host_.Path("dev/shm/psm_1a"), host_.Path("kept"));
  PutShared("psm_1a", 80);
  EXPECT_THAT(Checked(before), HasSubstr("/dev/shm/psm_1a"));
}

TEST_F(HostMemoryTest, SegmentsOfSystemVThatNobodyIsAttachedTo) {
  const HostMemory before = Before();
  PutSegment(7, 0, 100'000'000);
  EXPECT_EQ(Checked(before),
            "shared memory that no process holds was left behind: segment 7 of System V of user "
            "1000 (96 MiB); remove it with rm or ipcrm -m, and run the same command again");
  PutSegment(7, 2, 100'000'000);
  EXPECT_EQ(Checked(before), "back");
  PutSegment(7, 0, 1'000'000);
  EXPECT_EQ(Checked(before), "back");
  PutSegment(7, 0, 100'000'000);
  EXPECT_EQ(Checked(Before()), "back");  // it was there before
  for (const char* odd : {"", "x\n", "1 2 3 4 5 6 7 8 9 10 11 12 13\n",
                          "0 -1 600 99999999999 1 1 0 0 0 0 0 0 0 0 99999999999 0\n"}) {
    host_.Put("proc/sysvipc/shm", kHeading + odd);
    EXPECT_EQ(Checked(before), "back") << odd;
  }
  host_.Remove("proc/sysvipc");  // a kernel without them
  EXPECT_EQ(Checked(before), "back");
}

TEST_F(HostMemoryTest, ASparseFileTakesNothingAndALinkIsNotFollowed) {
  const HostMemory before = Before();
  PutShared("sparse", 0);
  std::filesystem::resize_file(host_.Path("dev/shm/sparse"), 1ULL << 30);
  PutShared("elsewhere", 80);
  std::filesystem::rename(host_.Path("dev/shm/elsewhere"), host_.Path("elsewhere"));
  std::filesystem::create_symlink(host_.Path("elsewhere"), host_.Path("dev/shm/link"));
  std::filesystem::create_directory_symlink(host_.Path(""), host_.Path("dev/shm/folder"));
  EXPECT_EQ(Checked(before), "back");
}

// Whatever a walk meets of them, it goes on.
TEST_F(HostMemoryTest, AFolderThatVanishesWhileItIsLookedAtIsGone) {
  PutShared("psm_1a", 80);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) {
      std::filesystem::create_directories(host_.Path(fmt::format("dev/shm/{}/deeper", i)));
    }
    std::atomic<bool> gone = false;
    std::thread remover([&] {
      for (int i = 99; i >= 0; --i) host_.Remove(fmt::format("dev/shm/{}", i));
      gone = true;
    });
    while (!gone) {
      const auto memory = ReadHostMemory(host_.reader);
      EXPECT_TRUE(memory) << memory.error().message;
      EXPECT_TRUE(!memory || memory->shared.size() == 1);
    }
    remover.join();
  }
}

TEST_F(HostMemoryTest, WhatCannotBeReadIsAnError) {
  const HostMemory before = Before();
  const std::string unclear =
      "/proc/meminfo: does not say MemTotal and MemAvailable: whether the host's memory comes back "
      "cannot be told";
  for (const char* odd : {"", "MemTotal: 5 kB\n", "MemTotal: 5 kB\nMemAvailable: -5 kB\n",
                          "MemTotal: 5 kB\nMemAvailable: x\n",
                          "MemTotal: 5 kB\nMemAvailable: 9223372036854775807 kB\n"}) {
    host_.Put("proc/meminfo", odd);
    EXPECT_EQ(Checked(before), unclear) << odd;
    EXPECT_FALSE(ReadHostMemory(host_.reader)) << odd;
  }
  host_.Remove("proc/meminfo");
  EXPECT_EQ(Checked(before), "/proc/meminfo: cannot open: No such file or directory");
  PutLevel(kAvailable, "HugePages_Total: 9223372036854775807\nHugepagesize: 8796093022208 kB\n");
  EXPECT_EQ(Checked(before), "back");
  host_.Remove("dev");
  EXPECT_EQ(Checked(before), "back");  // a host without it
  host_.Put("dev/shm", "a file");
  EXPECT_EQ(Checked(before), "/dev/shm: cannot list: Not a directory");
}

TEST(HostMemory, TheRealOneIsReadToo) {
  const auto memory = ReadHostMemory({});
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_GT(memory->available_kib, 0);
  EXPECT_TRUE(memory->processes.contains(static_cast<std::uint64_t>(getpid())));
}

}  // namespace
}  // namespace upgrade_gate::server
