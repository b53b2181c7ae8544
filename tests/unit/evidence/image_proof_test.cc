#include "framework/evidence/image_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/image_samples.h"
#include "tests/unit/evidence/evidence_test_support.h"

namespace upgrade_gate::evidence {
namespace {

namespace fs = std::filesystem;
using image_samples::ConfigOf;
using image_samples::Flavour;
using image_samples::IndexOf;
using image_samples::LinuxAmd64;
using image_samples::ManifestOf;
using image_samples::SampleImage;
using image_samples::Sha;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kName = "registry.example:5000/vllm:0.32@";

ImageProof ProofOf(const SampleImage& image, const std::string& pin) {
  ImageProof proof;
  proof.reference = kName + pin;
  proof.platform = LinuxAmd64();
  proof.documents = {image.index, image.manifest, image.config};
  proof.containers = {{"after start", base::Sha256Of(image.config), {}},
                      {"before the verdict", base::Sha256Of(image.config), {}}};
  return proof;
}

ImageProof ByIndex(const SampleImage& image) {
  return ProofOf(image, Sha(image.index));
}

ImageProof ByManifest(const SampleImage& image) {
  ImageProof proof = ProofOf(image, Sha(image.manifest));
  proof.documents.index.reset();
  return proof;
}

ImageProof ByConfig(const SampleImage& image) {
  ImageProof proof = ProofOf(image, Sha(image.config));
  proof.strength = ProofStrength::kConfig;
  proof.documents = {};
  return proof;
}

std::vector<std::string> Findings(const ImageProof& proof) {
  return Lines(CheckImageProof(proof).findings);
}

TEST(ImageProof, AWholeChainHoldsFromAnIndexAndFromAManifest) {
  for (const Flavour flavour : {Flavour::kDocker, Flavour::kOci}) {
    const SampleImage image("a", flavour);
    for (const ImageProof& proof : {ByIndex(image), ByManifest(image)}) {
      const ImageProofCheck check = CheckImageProof(proof);
      EXPECT_THAT(Lines(check.findings), IsEmpty());
      EXPECT_THAT(check.not_checked, IsEmpty());
      EXPECT_TRUE(check.ok());
      EXPECT_EQ(check.digests.manifest, base::Sha256Of(image.manifest));
      EXPECT_EQ(check.digests.config, base::Sha256Of(image.config));
    }
    EXPECT_EQ(CheckImageProof(ByIndex(image)).digests.pin, base::Sha256Of(image.index));
    EXPECT_EQ(CheckImageProof(ByManifest(image)).digests.index, std::nullopt);
  }
}

TEST(ImageProof, ItsStrengthIsThatOfWhatThePlanNames) {
  const SampleImage image("a");
  ImageProof proof = ByIndex(image);
  proof.strength = ProofStrength::kLayout;
  EXPECT_THAT(Lines(CheckImageProof(proof).findings),
              ElementsAre("proof.json: is of strength layout, and the plan names no OCI layout"));
  proof.reference = "oci:images@" + Sha(image.index);
  EXPECT_TRUE(CheckImageProof(proof).ok());
  proof.strength = ProofStrength::kRegistry;
  EXPECT_THAT(Lines(CheckImageProof(proof).findings),
              ElementsAre("proof.json: is of strength registry, and the plan names an OCI layout"));
}

TEST(ImageProof, TheContainerdStoreNamesManifestOrIndex) {
  const SampleImage image("a");
  ImageProof proof = ByIndex(image);
  proof.containers = {{"after start", base::Sha256Of(image.manifest), {}}};
  EXPECT_THAT(Findings(proof), IsEmpty());
  proof.containers = {{"after start", base::Sha256Of(image.index), base::Sha256Of(image.manifest)}};
  EXPECT_THAT(Findings(proof), IsEmpty());
}

TEST(ImageProof, AnIndexAloneDoesNotSayWhichPlatformRan) {
  const SampleImage image("a");
  ImageProof proof = ByIndex(image);
  proof.containers = {{"after start", base::Sha256Of(image.index), {}}};
  EXPECT_THAT(
      Findings(proof),
      ElementsAre("proof.json: after start the engine named the index " + Sha(image.index) +
                  " and no manifest: which platform's image ran is not known; pin the "
                  "manifest " +
                  Sha(image.manifest) + " itself, or use an engine with API 1.48 or later"));
}

TEST(ImageProof, AnotherPlatformsManifestOfTheSameIndexIsFound) {
  const SampleImage image("a");
  ImageProof proof = ByIndex(image);
  proof.containers = {
      {"after start", base::Sha256Of(image.index), base::Sha256Of(image.arm_manifest)}};
  EXPECT_THAT(Findings(proof),
              ElementsAre("proof.json: after start the container ran the manifest " +
                          Sha(image.arm_manifest) + ", the pin leads to " + Sha(image.manifest)));
}

TEST(ImageProof, AnotherImageInTheContainerIsFoundAtEachLook) {
  const SampleImage image("a");
  const SampleImage other("b");
  ImageProof proof = ByIndex(image);
  proof.containers[1].image = base::Sha256Of(other.config);
  EXPECT_THAT(Findings(proof),
              ElementsAre("proof.json: before the verdict the container ran the image " +
                          Sha(other.config) + ", the pin leads to the config " + Sha(image.config) +
                          " of the manifest " + Sha(image.manifest)));
}

TEST(ImageProof, AContainerThatNobodyAskedAboutIsAFinding) {
  ImageProof proof = ByIndex(SampleImage("a"));
  proof.containers.clear();
  EXPECT_THAT(Findings(proof),
              ElementsAre("proof.json: the engine was not asked which image the container ran"));
}

TEST(ImageProof, APinOfAnotherDocumentSaysOfWhich) {
  const SampleImage image("a");
  EXPECT_THAT(Findings(ProofOf(image, Sha("other"))),
              ElementsAre("index.json: the index's sha256 is " + Sha(image.index) +
                          ", the plan pins " + Sha("other")));
  EXPECT_THAT(Findings(ProofOf(image, Sha(image.manifest))),
              ElementsAre("index.json: the index's sha256 is " + Sha(image.index) +
                          ", the plan pins " + Sha(image.manifest) + ", which is the manifest"));
  ImageProof proof = ByManifest(image);
  proof.reference = kName + Sha(image.config);
  EXPECT_THAT(Findings(proof),
              ElementsAre("manifest.json: the manifest's sha256 is " + Sha(image.manifest) +
                          ", the plan pins " + Sha(image.config) + ", which is the config"));
}

TEST(ImageProof, AManifestThatTheIndexDoesNotListIsFound) {
  const SampleImage image("a");
  const SampleImage other("b");
  ImageProof proof = ByIndex(image);
  proof.documents.manifest = other.manifest;
  proof.documents.config = other.config;
  for (ContainerImage& seen : proof.containers) seen.image = base::Sha256Of(other.config);
  EXPECT_THAT(Findings(proof), ElementsAre("index.json: the index " + Sha(image.index) +
                                           " does not list the manifest " + Sha(other.manifest)));
}

TEST(ImageProof, AnotherConfigThanTheManifestNamesIsFound) {
  const SampleImage image("a");
  const SampleImage other("b");
  ImageProof proof = ByIndex(image);
  proof.documents.config = other.config;
  EXPECT_THAT(Findings(proof),
              testing::Contains("manifest.json: the manifest " + Sha(image.manifest) +
                                " names the config " + Sha(image.config) +
                                ", but the config's sha256 is " + Sha(other.config)));
}

TEST(ImageProof, ThePlatformIsOfTheIndexAndOfTheConfig) {
  const SampleImage image("a");
  ImageProof proof = ByIndex(image);
  proof.platform = {"linux", "arm64", ""};
  EXPECT_THAT(Findings(proof),
              ElementsAre("index.json: the index lists the manifest " + Sha(image.manifest) +
                              " for linux/amd64, the host is linux/arm64",
                          "config.json: the image is for linux/amd64, the host is linux/arm64"));
  proof = ByManifest(image);
  proof.platform = {"linux", "arm64", ""};
  EXPECT_THAT(Findings(proof),
              ElementsAre("config.json: the image is for linux/amd64, the host is linux/arm64"));
}

TEST(ImageProof, SizesThatDoNotFitAreFound) {
  const SampleImage image("a");
  std::string index = image.index;
  const std::string size = "\"size\":" + std::to_string(image.manifest.size());
  index.replace(index.find(size), size.size(), "\"size\":1");
  ImageProof proof = ByIndex(image);
  proof.documents.index = index;
  proof.reference = kName + Sha(index);
  EXPECT_THAT(Findings(proof),
              ElementsAre("index.json: the index says that the manifest " + Sha(image.manifest) +
                          " has 1 bytes; it has " + std::to_string(image.manifest.size())));
}

TEST(ImageProof, AMissingDocumentBreaksTheChain) {
  ImageProof proof = ByIndex(SampleImage("a"));
  proof.documents.config.reset();
  EXPECT_THAT(
      Findings(proof),
      testing::Contains("config.json: missing: the chain from the pin to the container is broken"));
  proof.documents.manifest.reset();
  EXPECT_THAT(Findings(proof),
              testing::Contains(
                  "manifest.json: missing: the chain from the pin to the container is broken"));
  EXPECT_THAT(Findings(proof), testing::Contains(testing::EndsWith("nothing that was kept")));
}

TEST(ImageProof, DocumentsInEachOthersPlacesAreFound) {
  const SampleImage image("a");
  ImageProof proof = ByIndex(image);
  std::swap(proof.documents.index, proof.documents.manifest);
  EXPECT_THAT(Findings(proof),
              testing::IsSupersetOf({"index.json: is a manifest, not an index",
                                     "manifest.json: is an index, not a manifest"}));
}

TEST(ImageProof, HostileDocumentsAreFindings) {
  const SampleImage image("a");
  ImageProof proof = ByIndex(image);
  proof.documents.index = std::string(1000, '[');
  proof.documents.config = "\x1b[31m";
  for (const std::string& line : Findings(proof)) {
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
  }
  EXPECT_THAT(Findings(proof),
              testing::Contains(HasSubstr("index.json: not valid JSON: nested deeper")));
}

TEST(ImageProof, PinnedByConfigIsWeakerAndSaysSo) {
  const SampleImage image("a");
  ImageProof proof = ByConfig(image);
  const ImageProofCheck check = CheckImageProof(proof);
  EXPECT_THAT(Lines(check.findings), IsEmpty());
  EXPECT_THAT(check.not_checked,
              ElementsAre("the platform of the image " + Sha(image.config) +
                          ": pinned by the engine's own digest of it, and the config itself was "
                          "not kept"));
  proof.documents.config = image.config;
  EXPECT_THAT(CheckImageProof(proof).not_checked, IsEmpty());
  EXPECT_THAT(Findings(proof), IsEmpty());
  EXPECT_EQ(Name(proof.strength), "config");
}

TEST(ImageProof, PinnedByConfigStillFindsAnotherImage) {
  const SampleImage image("a");
  const SampleImage other("b");
  ImageProof proof = ByConfig(image);
  proof.containers[0].image = base::Sha256Of(other.config);
  EXPECT_THAT(Findings(proof), ElementsAre("proof.json: after start the container ran the image " +
                                           Sha(other.config) + ", the pin leads to the config " +
                                           Sha(image.config)));
  proof = ByConfig(image);
  proof.documents.config = other.config;
  EXPECT_THAT(Findings(proof),
              testing::Contains("config.json: the config's sha256 is " + Sha(other.config) +
                                ", the plan pins " + Sha(image.config)));
  proof = ByConfig(image);
  proof.documents.manifest = image.manifest;
  EXPECT_THAT(Findings(proof),
              ElementsAre("proof.json: is of strength config, but an index or a manifest stands "
                          "beside it"));
}

TEST(ImageProof, AReferenceWithoutADigestProvesNothing) {
  ImageProof proof = ByIndex(SampleImage("a"));
  proof.reference = "registry.example:5000/vllm:0.32";
  EXPECT_THAT(Findings(proof), ElementsAre("proof.json: the image \"registry.example:5000/vllm:"
                                           "0.32\" has no digest"));
}

class ImageProofFileTest : public testing::Test {
 protected:
  ImageProofFileTest() : layout_(temp_.path() / "run"), boot_(BootOf("candidate", 2)) {
    EXPECT_TRUE(WriteBoot(layout_, boot_));
  }
  fs::path boot_folder() const { return layout_.boot(2, "candidate"); }
  fs::path folder() const { return boot_folder() / kImageFolder; }

  TempFolder temp_;
  Layout layout_;
  BootRecord boot_;
};

TEST_F(ImageProofFileTest, ComesBackByteForByte) {
  const SampleImage image("a");
  ImageProof proof = ByIndex(image);
  proof.strength = ProofStrength::kLayout;
  proof.reference = "oci:images:v1@" + Sha(image.index);
  proof.containers[1].manifest = base::Sha256Of(image.manifest);
  ASSERT_EQ(ErrorOf(WriteImageProof(layout_, boot_, proof)), "(no error)");
  EXPECT_EQ(Get(folder() / kImageIndexFile), image.index);
  EXPECT_EQ(Get(folder() / kImageManifestFile), image.manifest);
  EXPECT_EQ(Get(folder() / kImageConfigFile), image.config);
  const auto read = ReadImageProof(boot_folder());
  ASSERT_TRUE(read && *read) << ErrorOf(read);
  const ImageProof& back = **read;
  EXPECT_EQ(back.strength, proof.strength);
  EXPECT_EQ(back.reference, proof.reference);
  EXPECT_EQ(back.platform, proof.platform);
  EXPECT_EQ(back.documents.index, image.index);
  ASSERT_EQ(back.containers.size(), 2U);
  EXPECT_EQ(back.containers[0].when, "after start");
  EXPECT_EQ(back.containers[0].manifest, std::nullopt);
  EXPECT_EQ(back.containers[1].manifest, base::Sha256Of(image.manifest));
  EXPECT_TRUE(CheckImageProof(back).ok());
}

TEST_F(ImageProofFileTest, NoneIsNotAnEmptyOne) {
  const auto read = ReadImageProof(boot_folder());
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->has_value());
  fs::create_directory(folder());
  EXPECT_THAT(ErrorOf(ReadImageProof(boot_folder())), testing::EndsWith("proof.json: missing"));
}

TEST_F(ImageProofFileTest, WhatWasSeenLaterIsAddedAndDocumentsStay) {
  ImageProof proof = ByIndex(SampleImage("a"));
  ASSERT_TRUE(WriteImageProof(layout_, boot_, proof));
  proof.containers.push_back({"once more", proof.containers[0].image, {}});
  ASSERT_EQ(ErrorOf(WriteImageProof(layout_, boot_, proof)), "(no error)");
  EXPECT_EQ((*ReadImageProof(boot_folder()))->containers.size(), 3U);
  proof.documents.config = ConfigOf("b");
  EXPECT_THAT(
      ErrorOf(WriteImageProof(layout_, boot_, proof)),
      testing::EndsWith("config.json: not written: the proof has had another document before"));
  proof.documents.config.reset();
  EXPECT_THAT(ErrorOf(WriteImageProof(layout_, boot_, proof)),
              testing::EndsWith("config.json: not written: the proof has had other documents "
                                "before"));
}

TEST_F(ImageProofFileTest, NothingIsWrittenThatCannotBeReadBack) {
  ImageProof proof = ByIndex(SampleImage("a"));
  proof.containers[0].image = "not a digest";
  EXPECT_THAT(ErrorOf(WriteImageProof(layout_, boot_, proof)),
              HasSubstr("image: not written: \"image_sha256\" is \"not a digest\""));
  proof = ByIndex(SampleImage("a"));
  proof.platform = {};
  EXPECT_THAT(ErrorOf(WriteImageProof(layout_, boot_, proof)), HasSubstr("is not a platform"));
  proof = ByIndex(SampleImage("a"));
  proof.documents.index = std::string(kMaxImageDocumentBytes + 1, ' ');
  EXPECT_THAT(ErrorOf(WriteImageProof(layout_, boot_, proof)),
              testing::EndsWith("index.json: not written: longer than its cap"));
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(ImageProofFileTest, OnlyOfABootThatIsThereAndBeforeTheSeal) {
  const ImageProof proof = ByIndex(SampleImage("a"));
  EXPECT_THAT(ErrorOf(WriteImageProof(layout_, BootOf("baseline", 1), proof)),
              HasSubstr("the boot has no record yet"));
  ASSERT_TRUE(Seal(layout_.evidence()));
  EXPECT_THAT(ErrorOf(WriteImageProof(layout_, boot_, proof)), HasSubstr("the evidence is sealed"));
}

TEST_F(ImageProofFileTest, HostileFilesAreErrorsWithTheirPath) {
  ASSERT_TRUE(WriteImageProof(layout_, boot_, ByIndex(SampleImage("a"))));
  const std::pair<std::string, std::string> kForged[] = {
      {"\"registry\"", "\"signed\""},
      {"\"schema\": 1", "\"schema\": 2"},
      {"\"linux/amd64\"", "\"linux\""},
      {"\"image_sha256\": \"", "\"image_sha256\": \"x"}};
  const std::string whole = Get(folder() / kImageProofFile);
  for (const auto& [from, to] : kForged) {
    Put(folder() / kImageProofFile, whole);
    Replace(folder() / kImageProofFile, from, to);
    EXPECT_THAT(ErrorOf(ReadImageProof(boot_folder())), HasSubstr("image/proof.json: ")) << to;
  }
  Put(folder() / kImageProofFile, whole);
  fs::remove(folder() / kImageIndexFile);
  fs::create_symlink("/etc/hostname", folder() / kImageIndexFile);
  EXPECT_THAT(ErrorOf(ReadImageProof(boot_folder())),
              HasSubstr("image/index.json: is a symbolic link, which is not followed"));
}

}  // namespace
}  // namespace upgrade_gate::evidence
