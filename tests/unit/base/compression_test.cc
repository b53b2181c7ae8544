#include "framework/base/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace upgrade_gate::base {
namespace {

using testing::HasSubstr;

TEST(CompressionTest, WhatIsCompressedComesBack) {
  for (const std::string& bytes :
       {std::string(), std::string("x"), std::string("\0\xff\n", 3), std::string(3'000'000, 'a')}) {
    const auto back = Decompress(Compress(bytes), bytes.size());
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, bytes);
  }
}

TEST(CompressionTest, TheSameBytesGiveTheSameFrameInZstdsFormat) {
  const std::string frame = Compress("evidence");
  EXPECT_EQ(frame, Compress("evidence"));
  EXPECT_EQ(frame.substr(0, 4), "\x28\xb5\x2f\xfd");  // the magic number, RFC 8878
}

TEST(CompressionTest, TheCapIsExact) {
  const std::string frame = Compress(std::string(1000, 'a'));
  EXPECT_TRUE(Decompress(frame, 1000));
  const auto over = Decompress(frame, 999);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().kind, ErrorKind::kEvidence);
  EXPECT_EQ(over.error().message, "decompresses to more than 999 bytes");
}

TEST(CompressionTest, ABombStopsAtTheCap) {
  std::string bomb;
  const std::string frame = Compress(std::string(8U << 20, '\0'));
  for (int i = 0; i < 1000; ++i) bomb += frame;  // 8 GB, were it ever unpacked
  const auto over = Decompress(bomb, 20U << 20);
  ASSERT_FALSE(over);
  EXPECT_THAT(over.error().message, HasSubstr("more than 20971520 bytes"));
}

TEST(CompressionTest, AFrameCutAnywhereIsAnError) {
  const std::string frame = Compress("some text that is a little longer than its header");
  for (std::size_t length = 0; length < frame.size(); ++length) {
    EXPECT_FALSE(Decompress(frame.substr(0, length), 1000)) << length;
  }
}

TEST(CompressionTest, BytesAfterTheFrameAndForeignBytesAreErrors) {
  EXPECT_FALSE(Decompress(Compress("x") + "y", 1000));
  EXPECT_FALSE(Decompress("not zstd at all", 1000));
}

}  // namespace
}  // namespace upgrade_gate::base
