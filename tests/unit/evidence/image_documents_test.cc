#include "framework/evidence/image_documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/image_samples.h"
#include "tests/unit/evidence/evidence_test_support.h"

namespace upgrade_gate::evidence {
namespace {

using image_samples::ConfigOf;
using image_samples::DescriptorOf;
using image_samples::Flavour;
using image_samples::IndexOf;
using image_samples::LinuxAmd64;
using image_samples::ManifestOf;
using image_samples::SampleImage;
using image_samples::Sha;
using testing::HasSubstr;

std::string ChosenFor(const std::string& index, const ImagePlatform& platform) {
  const auto read = ReadImageManifest(index);
  if (!read) return read.error().message;
  const auto chosen = ChooseManifest(*read, platform);
  return chosen ? ShownDigest(chosen->digest) : chosen.error().message;
}

TEST(ImageManifest, AllFourMediaTypesAreRead) {
  for (const Flavour flavour : {Flavour::kDocker, Flavour::kOci}) {
    const SampleImage image("a", flavour);
    const auto index = ReadImageManifest(image.index);
    ASSERT_TRUE(index) << index.error().message;
    EXPECT_EQ(index->kind, ImageDocumentKind::kIndex);
    ASSERT_EQ(index->manifests.size(), 2U);
    EXPECT_EQ(ShownDigest(index->manifests[0].digest), Sha(image.manifest));
    EXPECT_EQ(index->manifests[0].size, image.manifest.size());
    EXPECT_EQ(index->manifests[1].platform, (ImagePlatform{"linux", "arm64", ""}));
    const auto manifest = ReadImageManifest(image.manifest);
    ASSERT_TRUE(manifest) << manifest.error().message;
    EXPECT_EQ(manifest->kind, ImageDocumentKind::kManifest);
    EXPECT_EQ(ShownDigest(manifest->config.digest), Sha(image.config));
  }
}

TEST(ImageManifest, TheMediaTypeMayBeLeftOutAsInOci) {
  std::string manifest = ManifestOf(ConfigOf("a"));
  const std::string type = "\"mediaType\":\"" + std::string(kOciManifestType) + "\",";
  manifest.erase(manifest.find(type), type.size());
  ASSERT_TRUE(ReadImageManifest(manifest));
}

TEST(ImageManifest, WhatTwoReadersCouldReadDifferentlyIsRefused) {
  const std::string config = DescriptorOf("c", "x");
  const std::string hex(64, 'a');
  const std::pair<std::string, std::string> kRefused[] = {
      {"[]", "is not a JSON object"},
      {"<html>", "not valid JSON"},
      {R"({"schemaVersion":2})", "is no index and no manifest"},
      {R"({"schemaVersion":2,"config":)" + config + R"(,"layers":[],"manifests":[]})",
       "is an index and a manifest at once"},
      {R"({"schemaVersion":2,"layers":[],"manifests":[]})", "is an index and a manifest at once"},
      {R"({"schemaVersion":2,"mediaType":")" + std::string(kOciIndexType) + R"(","config":)" +
           config + R"(,"layers":[]})",
       "has what a manifest has, but its mediaType is \"application/vnd.oci.image.index.v1+json\""},
      {R"({"schemaVersion":2,"mediaType":"text/plain","manifests":[]})",
       "has what an index has, but its mediaType is \"text/plain\""},
      {R"({"schemaVersion":1,"config":)" + config + R"(,"layers":[]})",
       "its schemaVersion is 1, and only 2 names a config: push the image again"},
      {R"({"schemaVersion":2,"schemaVersion":2,"manifests":[]})", "doubled key"},
      {R"({"schemaVersion":2,"manifests":{}})", "\"manifests\" is not a list"},
      {R"({"schemaVersion":2,"manifests":[1]})", "not an object"},
      {R"({"schemaVersion":2,"config":)" + config + "}", "\"layers\" is missing"},
      {R"({"schemaVersion":2,"config":{"mediaType":"c","size":1,"digest":"sha512:)" + hex +
           R"("},"layers":[]})",
       "is not a digest of \"sha256:\""},
      {R"({"schemaVersion":2,"config":{"mediaType":"c","size":-1,"digest":"sha256:)" + hex +
           R"("},"layers":[]})",
       "\"size\" is below 0"},
      {R"({"schemaVersion":2,"config":{"mediaType":"c","size":"1","digest":"sha256:)" + hex +
           R"("},"layers":[]})",
       "\"size\" is not an integer"},
  };
  for (const auto& [bytes, why] : kRefused) {
    EXPECT_THAT(ErrorOf(ReadImageManifest(bytes)), HasSubstr(why)) << bytes;
  }
}

TEST(ImageManifest, ADescriptorKeepsItsName) {
  const auto named = [](const std::string& more) {
    const auto index = ReadImageManifest(R"({"schemaVersion":2,"manifests":[)" +
                                         DescriptorOf(kOciManifestType, "x", more) + "]}");
    return index ? index->manifests[0].name : index.error().message;
  };
  EXPECT_EQ(named(R"(,"annotations":{"org.opencontainers.image.ref.name":"v1"})"), "v1");
  for (const char* none : {"", R"(,"annotations":{})", R"(,"annotations":null)",
                           R"(,"annotations":{"org.opencontainers.image.ref.name":1})"}) {
    EXPECT_EQ(named(none), "") << none;
  }
}

TEST(ImageLayers, AreReadInTheirOrder) {
  const auto manifest = [](const std::string& layers) {
    return R"({"schemaVersion":2,"config":)" + DescriptorOf("c", "x") + R"(,"layers":)" + layers +
           "}";
  };
  const auto layers = ReadImageLayers(
      manifest("[" + DescriptorOf("l", "low") + "," + DescriptorOf("h", "high") + "]"));
  ASSERT_TRUE(layers) << layers.error().message;
  ASSERT_EQ(layers->size(), 2U);
  EXPECT_EQ(ShownDigest((*layers)[0].digest), Sha("low"));
  EXPECT_EQ((*layers)[1].media_type, "h");
  EXPECT_EQ((*layers)[1].size, 4U);
  EXPECT_EQ(ErrorOf(ReadImageLayers(manifest("{}"))), "\"layers\" is not a list");
  EXPECT_THAT(ErrorOf(ReadImageLayers(manifest("[1]"))), HasSubstr("not an object"));
  std::string many = "[" + DescriptorOf("l", "x");
  for (std::size_t i = 0; i < kMaxImageLayers; ++i) many += "," + DescriptorOf("l", "x");
  EXPECT_EQ(ErrorOf(ReadImageLayers(manifest(many + "]"))),
            "has 1001 layers, over the cap of 1000");
}

TEST(ImageManifest, HostileSizesEndBeforeTheParser) {
  EXPECT_THAT(ErrorOf(ReadImageManifest(std::string(kMaxImageDocumentBytes + 1, ' '))),
              testing::StrEq("has 4194305 bytes, over the cap of 4194304"));
  std::string deep(1000, '[');
  EXPECT_THAT(ErrorOf(ReadImageManifest(deep)), HasSubstr("nested deeper than 64 levels"));
}

TEST(ImageManifest, AMessageShowsNoControlCharacterOfTheDocument) {
  const std::string message = ErrorOf(ReadImageManifest("{\"\\u001b[31m\":1,\"\\u001b[31m\":2}"));
  EXPECT_EQ(message.find('\x1b'), std::string::npos) << message;
}

TEST(ImageConfig, SaysItsPlatform) {
  const auto platform = ReadImageConfig(ConfigOf("a", "arm64"));
  ASSERT_TRUE(platform);
  EXPECT_EQ(ToString(*platform), "linux/arm64");
  EXPECT_EQ(ErrorOf(ReadImageConfig("{}")), "does not say its os and architecture");
}

TEST(ChooseManifest, TakesTheOneOfThePlatform) {
  const SampleImage image("a");
  EXPECT_EQ(ChosenFor(image.index, LinuxAmd64()), Sha(image.manifest));
  EXPECT_EQ(ChosenFor(image.index, {"linux", "arm64", "v8"}), Sha(image.arm_manifest));
}

TEST(ChooseManifest, SaysWhatThereIs) {
  const std::string manifest = ManifestOf(ConfigOf("a"));
  EXPECT_EQ(ChosenFor(SampleImage("a").index, {"linux", "riscv64", ""}),
            "has no image for linux/riscv64, only for linux/amd64 and linux/arm64");
  EXPECT_EQ(ChosenFor(IndexOf({}), LinuxAmd64()),
            "has no image for linux/amd64, only for no platform at all");
  // An attestation is not an image.
  EXPECT_EQ(ChosenFor(IndexOf({{manifest, "unknown", "unknown"}}), LinuxAmd64()),
            "has no image for linux/amd64, only for no platform at all");
  std::vector<image_samples::ListedManifest> many;
  for (int i = 0; i < 20; ++i) many.push_back({manifest, "a" + std::to_string(i)});
  EXPECT_THAT(ChosenFor(IndexOf(many), LinuxAmd64()), testing::EndsWith("linux/a7 and 12 more"));
}

TEST(ChooseManifest, DoesNotGuessBetweenTwo) {
  const std::string six = ManifestOf(ConfigOf("6", "arm"));
  const std::string seven = ManifestOf(ConfigOf("7", "arm"));
  const std::string index = IndexOf({{six, "arm", "linux", "v6"}, {seven, "arm", "linux", "v7"}});
  EXPECT_EQ(ChosenFor(index, {"linux", "arm", "v7"}), Sha(seven));
  EXPECT_EQ(ChosenFor(index, {"linux", "arm", ""}),
            "has 2 images for linux/arm: " + Sha(six) + " (linux/arm/v6) and " + Sha(seven) +
                " (linux/arm/v7): pin the one that is meant");
}

TEST(ChooseManifest, AnIndexInAnIndexIsNoManifest) {
  const std::string nested = IndexOf({});
  const std::string index =
      R"({"schemaVersion":2,"manifests":[)" +
      DescriptorOf(kOciIndexType, nested, R"(,"platform":{"os":"linux","architecture":"amd64"})") +
      "]}";
  EXPECT_THAT(ChosenFor(index, LinuxAmd64()), HasSubstr("lists for linux/amd64 not a manifest"));
}

TEST(ChooseManifest, ASingleManifestMayLeaveItsPlatformToTheConfig) {
  const std::string manifest = ManifestOf(ConfigOf("a"));
  const std::string one = DescriptorOf(kOciManifestType, manifest);
  EXPECT_EQ(ChosenFor(R"({"schemaVersion":2,"manifests":[)" + one + "]}", LinuxAmd64()),
            Sha(manifest));
  EXPECT_THAT(
      ChosenFor(R"({"schemaVersion":2,"manifests":[)" + one + "," + one + "]}", LinuxAmd64()),
      HasSubstr("only for no platform"));
}

TEST(ImagePlatform, IsReadAsPeopleWriteIt) {
  const auto platform = ParsePlatform("linux/arm/v7");
  ASSERT_TRUE(platform);
  EXPECT_EQ(ToString(*platform), "linux/arm/v7");
  for (const char* text : {"", "linux", "linux/", "/amd64", "linux/amd64/", "a/b/c/d", "Linux/x",
                           "linux/am d64", "linux/\x1b"}) {
    EXPECT_THAT(ErrorOf(ParsePlatform(text)), HasSubstr("is not a platform such as linux/amd64"))
        << text;
  }
}

}  // namespace
}  // namespace upgrade_gate::evidence
