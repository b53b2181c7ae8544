#include "framework/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/base/temp_folder.h"

namespace upgrade_gate::base {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  fs::path path(const char* name) const { return temp_.path() / name; }
  std::vector<std::string> Tree() const {
    std::vector<std::string> lines;
    const auto entries = ListTree(temp_.path());
    for (const Entry& entry : *entries) {
      const char* kind = entry.kind == Entry::Kind::kFile        ? "file "
                         : entry.kind == Entry::Kind::kDirectory ? "folder "
                                                                 : "other ";
      lines.push_back(kind + entry.path);
    }
    return lines;
  }

  TempFolder temp_;
};

TEST_F(FileTest, WhatIsWrittenIsRead) {
  const std::string bytes("\0\r\n\xff", 4);
  ASSERT_TRUE(WriteFile(path("a"), bytes));
  EXPECT_EQ(*ReadFile(path("a"), 100), bytes);
  ASSERT_TRUE(WriteFile(path("a"), ""));
  EXPECT_EQ(*ReadFile(path("a"), 0), "");
}

TEST_F(FileTest, TheCapIsExact) {
  ASSERT_TRUE(WriteFile(path("a"), std::string(100'000, 'x')));
  EXPECT_TRUE(ReadFile(path("a"), 100'000));
  const auto over = ReadFile(path("a"), 99'999);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().message, path("a").string() + ": is longer than the cap of 99999 bytes");
}

TEST_F(FileTest, ReadFollowsNoLinkAndOpensNothingButFiles) {
  ASSERT_TRUE(WriteFile(path("a"), "x"));
  fs::create_symlink("a", path("link"));
  EXPECT_THAT(ReadFile(path("link"), 10).error().message, HasSubstr("is a symbolic link"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(ReadFile(path("pipe"), 10).error().message, HasSubstr("is not a regular file"));
  EXPECT_THAT(ReadFile(temp_.path(), 10).error().message, HasSubstr("is not a regular file"));
  EXPECT_THAT(ReadFile("/dev/zero", 10).error().message, HasSubstr("is not a regular file"));
  EXPECT_THAT(ReadFile(path("none"), 10).error().message, HasSubstr("No such file"));
}

TEST_F(FileTest, WriteFollowsNoLink) {
  ASSERT_TRUE(WriteFile(path("a"), "x"));
  fs::create_symlink("a", path("link"));
  EXPECT_FALSE(WriteFile(path("link"), "y"));
  EXPECT_EQ(*ReadFile(path("a"), 10), "x");
}

TEST_F(FileTest, AtomicWritingReplacesAndLeavesNothingBehind) {
  ASSERT_TRUE(WriteFileAtomically(path("a"), "old"));
  ASSERT_TRUE(WriteFileAtomically(path("a"), "new"));
  EXPECT_EQ(*ReadFile(path("a"), 10), "new");
  EXPECT_THAT(Tree(), ElementsAre("file a"));
  EXPECT_FALSE(WriteFileAtomically(path("none") / "a", "x"));
}

TEST_F(FileTest, AtomicWritingReplacesALinkAndNotWhatItPointsTo) {
  ASSERT_TRUE(WriteFile(path("a"), "x"));
  fs::create_symlink("a", path("link"));
  ASSERT_TRUE(WriteFileAtomically(path("link"), "y"));
  EXPECT_EQ(*ReadFile(path("a"), 10), "x");
  EXPECT_EQ(*ReadFile(path("link"), 10), "y");
}

TEST_F(FileTest, RenamingAFolderOverwritesNothing) {
  ASSERT_TRUE(CreateDirectories(path("from") / "deep"));
  ASSERT_TRUE(WriteFile(path("from") / "deep" / "a", "x"));
  ASSERT_TRUE(CreateDirectories(path("there")));
  EXPECT_THAT(RenameDirectory(path("from"), path("there")).error().message,
              HasSubstr("is already there"));
  fs::create_symlink("nowhere", path("dangling"));
  EXPECT_FALSE(RenameDirectory(path("from"), path("dangling")));
  ASSERT_TRUE(RenameDirectory(path("from"), path("to")));
  EXPECT_EQ(*ReadFile(path("to") / "deep" / "a", 10), "x");
  EXPECT_FALSE(fs::exists(path("from")));
}

TEST_F(FileTest, ListsATreeSortedWithoutFollowingLinks) {
  ASSERT_TRUE(CreateDirectories(path("b") / "c"));
  ASSERT_TRUE(WriteFile(path("b") / "c" / "d", "x"));
  ASSERT_TRUE(WriteFile(path("a"), "x"));
  fs::create_directory_symlink("b", path("link"));
  EXPECT_THAT(Tree(), ElementsAre("file a", "folder b", "folder b/c", "file b/c/d", "other link"));
  EXPECT_FALSE(ListTree(path("none")));
}

TEST_F(FileTest, RemovesATreeAndWhatIsNotThere) {
  ASSERT_TRUE(CreateDirectories(path("b") / "c"));
  ASSERT_TRUE(RemoveAll(path("b")));
  ASSERT_TRUE(RemoveAll(path("b")));
  EXPECT_THAT(Tree(), ElementsAre());
}

TEST_F(FileTest, ALockIsHeldByOneAndNamesItsHolder) {
  {
    const auto lock = FileLock::Acquire(path("lock"));
    ASSERT_TRUE(lock);
    const auto second = FileLock::Acquire(path("lock"));
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message,
                HasSubstr("is held by another process (pid " + std::to_string(getpid()) + ")"));
  }
  EXPECT_TRUE(FileLock::Acquire(path("lock")));
}

TEST_F(FileTest, AMovedDescriptorIsClosedOnce) {
  int number = -1;
  {
    Fd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(fd.valid());
    number = fd.get();
    Fd other = std::move(fd);
    EXPECT_FALSE(fd.valid());  // NOLINT(bugprone-use-after-move): that is the test
    EXPECT_EQ(other.get(), number);
    EXPECT_NE(fcntl(number, F_GETFD), -1);
  }
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

TEST_F(FileTest, FreeSpaceIsKnownForAFolderThatExists) {
  EXPECT_GT(*FreeBytes(temp_.path()), 0U);
  EXPECT_FALSE(FreeBytes(path("none")));
}

}  // namespace
}  // namespace upgrade_gate::base
