#include "framework/evidence/raw_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/evidence/evidence_test_support.h"

namespace upgrade_gate::evidence {
namespace {

std::string Bytes(std::size_t size, char first) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>(first + static_cast<char>(i % 7));
  return bytes;
}

TEST(RawBytes, AreReadBackAsTheyWereWrittenWhateverTheirSizes) {
  const TempFolder folder;
  const auto spool = Spool::Create(folder.path());
  ASSERT_TRUE(spool) << ErrorOf(spool);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));  // it has no name
  for (const auto& of : {std::shared_ptr<Spool>(), *spool}) {
    for (const std::size_t size : {0U, 1U, 2047U, 2048U, 2049U, 10'000U}) {
      RawBytes bytes(of);
      const std::string expected = Bytes(size, 'a');
      for (std::size_t at = 0; at < size; at += 1000) bytes.Append(expected.substr(at, 1000));
      EXPECT_EQ(bytes.size(), size);
      EXPECT_EQ(*bytes.Read(), expected);
    }
  }
}

TEST(RawBytes, BlocksThatAreGivenBackAreUsedAgain) {
  const TempFolder folder;
  const auto spool = *Spool::Create(folder.path());
  RawBytes kept(spool);
  kept.Append(Bytes(5000, 'k'));
  for (int i = 0; i < 100; ++i) {
    RawBytes passing(spool);
    passing.Append(Bytes(5000, 'p'));
  }
  EXPECT_EQ(spool->blocks(), 4U);
  EXPECT_EQ(*kept.Read(), Bytes(5000, 'k'));
}

TEST(RawBytes, MayBeMovedAndTheOldOneGoesOn) {
  const TempFolder folder;
  const auto spool = *Spool::Create(folder.path());
  RawBytes first(spool);
  first.Append(Bytes(5000, 'a'));
  RawBytes second = std::move(first);
  first.Append("next");
  EXPECT_EQ(*second.Read(), Bytes(5000, 'a'));
  EXPECT_EQ(*first.Read(), "next");
  second.Clear();
  EXPECT_EQ(second.size(), 0U);
  EXPECT_EQ(*second.Read(), "");
}

TEST(Spool, AFolderThatIsNotThereIsAnError) {
  EXPECT_EQ(ErrorOf(Spool::Create("/nowhere/at/all")),
            "/nowhere/at/all: cannot make a file for raw streams: No such file or directory");
}

}  // namespace
}  // namespace upgrade_gate::evidence
