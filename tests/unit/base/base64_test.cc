#include "framework/base/base64.h"

#include <gtest/gtest.h>

#include <string>

namespace upgrade_gate::base {
namespace {

// The vectors of RFC 4648.
TEST(Base64, TheStandardsOwnVectors) {
  const std::pair<const char*, const char*> kVectors[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : kVectors) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_EQ(DecodeBase64(text), bytes);
  }
}

TEST(Base64, EveryByteComesBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(DecodeBase64(EncodeBase64(bytes)), bytes);
}

TEST(Base64, PaddingMayBeLeftOut) {
  EXPECT_EQ(DecodeBase64("Zg"), "f");
  EXPECT_EQ(DecodeBase64("Zm8"), "fo");
}

TEST(Base64, OtherTextIsRefused) {
  for (const char* text : {"Zg=", "Z", "Zg===", "Zm9v=", "Zm 9", "Zm-_", "=Zg", "Z=g="}) {
    EXPECT_EQ(DecodeBase64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace upgrade_gate::base
