#include "framework/evidence/oci_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace upgrade_gate::evidence {
namespace {

using testing::HasSubstr;

const std::string kDigest(64, 'a');

// "path|name|digest", or the error.
std::string Parsed(const std::string& text) {
  const auto read = ParseOciReference(text);
  if (!read) {
    EXPECT_EQ(read.error().kind, base::ErrorKind::kUsage);
    return read.error().message;
  }
  if (read->digest) {
    EXPECT_EQ(read->Pinned(*read->digest), text);
  }
  return read->path + "|" + read->name + "|" + read->digest.value_or("");
}

TEST(OciReference, ThePathEndsAtTheFirstColon) {
  const std::pair<const char*, const char*> cases[] = {
      {"oci:images/vllm", "images/vllm||"},
      {"oci:/srv/images/vllm:0.32", "/srv/images/vllm|0.32|"},
      {"oci:../a b:registry.example:5000/team/vllm:0.32",
       "../a b|registry.example:5000/team/vllm:0.32|"},
      {"oci:bilder/prüfung", "bilder/prüfung||"},
  };
  for (const auto& [text, parts] : cases) {
    EXPECT_EQ(Parsed(text), parts);
    EXPECT_EQ(Parsed(text + ("@sha256:" + kDigest)), parts + kDigest);
  }
}

TEST(OciReference, EverythingWithThePrefixIsOne) {
  EXPECT_TRUE(IsOciReference("oci:1.0@sha256:"));
  EXPECT_FALSE(IsOciReference("docker.io/library/oci:1.0"));
  EXPECT_FALSE(IsOciReference("oci-archive:a.tar"));
  EXPECT_FALSE(IsOciReference("oci"));
}

TEST(OciReference, WhatIsNoneSaysWhatToWrite) {
  for (const std::string& text :
       {std::string("oci:"), "oci:@sha256:" + kDigest, std::string("oci::v1")}) {
    EXPECT_EQ(
        Parsed(text),
        "names no folder: an OCI layout is written oci:PATH or oci:PATH:NAME, and pinned with "
        "@sha256:… behind it");
  }
  EXPECT_EQ(Parsed("oci:a@0"),
            "must have behind its \"@\" a digest: \"0\" is not a digest of \"sha256:\" and 64 "
            "lower-case hexadecimal digits");
  EXPECT_THAT(Parsed("oci:a@b@sha256:" + kDigest),
              HasSubstr("must have behind its \"@\" a digest"));
  for (const char* text : {"oci:a:", "oci:a:-v", "oci:a:v 1", "oci:a:$(reboot)"}) {
    EXPECT_THAT(Parsed(text), HasSubstr("has behind its path no name of an image in the layout"));
  }
  for (const char* text : {"oci:a\nb", "oci:a\x1b[31m", "oci:\xff"}) {
    EXPECT_EQ(Parsed(text), "has a path with control characters or bytes that are no UTF-8");
  }
  EXPECT_EQ(Parsed("oci:" + std::string(1021, 'a')),
            "is longer than 1024 bytes, the most that an image's name may have");
}

}  // namespace
}  // namespace upgrade_gate::evidence
