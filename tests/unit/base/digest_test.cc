#include "framework/base/digest.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/base/temp_folder.h"

namespace upgrade_gate::base {
namespace {

// FIPS 180-4's examples.
constexpr const char* kNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kMillionA =
    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(DigestTest, MatchesThePublishedExamples) {
  EXPECT_EQ(Sha256Of(""), kNothing);
  EXPECT_EQ(Sha256Of("abc"), kAbc);
  EXPECT_EQ(Sha256Of(std::string(1'000'000, 'a')), kMillionA);
}

TEST(DigestTest, PiecesGiveTheSameAsTheWhole) {
  Sha256 digest;
  digest.Update("a");
  digest.Update("");
  Sha256 moved = std::move(digest);
  moved.Update("bc");
  EXPECT_EQ(moved.Finish(), kAbc);
}

TEST(DigestTest, OfAFileThatIsLongerThanTheBuffer) {
  TempFolder temp;
  const std::string bytes(1'000'000, 'a');
  ASSERT_TRUE(WriteFile(temp.path() / "a", bytes));
  EXPECT_EQ(*Sha256OfFile(temp.path() / "a"), kMillionA);
  const auto missing = Sha256OfFile(temp.path() / "b");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kInfrastructure);
  EXPECT_FALSE(Sha256OfFile(temp.path()));
}

TEST(DigestTest, HexMeans64LowerCaseDigits) {
  EXPECT_TRUE(IsSha256Hex(kAbc));
  EXPECT_FALSE(IsSha256Hex(std::string(kAbc).substr(1)));
  EXPECT_FALSE(IsSha256Hex(std::string(kAbc) + "0"));
  EXPECT_FALSE(IsSha256Hex(std::string(63, 'a') + "A"));
  EXPECT_FALSE(IsSha256Hex(std::string(63, 'a') + "g"));
  EXPECT_FALSE(IsSha256Hex(""));
}

}  // namespace
}  // namespace upgrade_gate::base
