#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "framework/base/compression.h"
#include "framework/evidence/image_proof.h"
#include "framework/evidence/limits.h"
#include "framework/evidence/store.h"
#include "framework/evidence/sums.h"
#include "tests/support/image_samples.h"
#include "tests/unit/evidence/evidence_test_support.h"

namespace upgrade_gate::evidence {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class VerifyTest : public testing::Test {
 protected:
  VerifyTest() : layout_(temp_.path() / "run") { WriteSealedRun(layout_); }

  std::vector<std::string> Findings() const {
    const auto verified = VerifyEvidence(layout_);
    if (!verified) return {"error: " + verified.error().message};
    EXPECT_EQ(verified->ok(), verified->findings.empty());
    return Lines(verified->findings);
  }
  // What a forger does who can seal again.
  std::vector<std::string> AfterForging(const fs::path& path, std::string_view from,
                                        std::string_view to) {
    Replace(path, from, to);
    SealAgain(layout_);
    return Findings();
  }
  fs::path round() const { return layout_.round("1k-512-c1", 1, "baseline", 2); }

  TempFolder temp_;
  Layout layout_;
};

TEST_F(VerifyTest, AnUntouchedRunHasNoFindings) {
  const auto verified = VerifyEvidence(layout_);
  ASSERT_TRUE(verified) << ErrorOf(verified);
  EXPECT_THAT(Lines(verified->findings), IsEmpty());
  EXPECT_THAT(verified->not_checked, IsEmpty());
  EXPECT_EQ(verified->digest, base::Sha256Of(Get(layout_.sums())));
}

TEST_F(VerifyTest, TheToolAcceptsTheWholeRun) {
  const std::string command =
      "cd '" + layout_.evidence().string() + "' && sha256sum --quiet --strict -c SHA256SUMS";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(VerifyTest, ABrokenSealIsSaidAndNothingIsParsed) {
  Put(layout_.summary(), std::string(1000, '['));
  EXPECT_THAT(Findings(), ElementsAre(StartsWith("summary.json: changed since it was sealed")));
  EXPECT_THAT(VerifyEvidence(layout_)->not_checked, ElementsAre(HasSubstr("the seal is broken")));
}

TEST_F(VerifyTest, ANumberThatDoesNotFollowFromTheRecordsIsNamed) {
  EXPECT_THAT(
      AfterForging(layout_.summary(), "\"output_tokens\": 11,", "\"output_tokens\": 12,"),
      ElementsAre("summary.json: does not follow from the records: cases[1k-512-c1].arms.baseline."
                  "rounds[boot 1, round 2].output_tokens is 12, recomputed 11"));
}

TEST_F(VerifyTest, AFailureThatWasWrittenAwayIsNamed) {
  // Consistently, everywhere in the summary; only the records know better.
  std::string text = Get(layout_.summary());
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"\"failed\": 1", "\"failed\": 0"},
        {"\"empty_output\": 1", ""}}) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      text.replace(at, from.size(), to);
    }
  }
  Put(layout_.summary(), text);
  SealAgain(layout_);
  EXPECT_THAT(Findings(),
              ElementsAre(HasSubstr("cases[1k-512-c1].arms.baseline.failed is 0, recomputed 1")));
}

TEST_F(VerifyTest, TheSameValuesWrittenOtherwiseAreNotTheSealedBytes) {
  EXPECT_THAT(AfterForging(layout_.summary(), "\"schema\": 1", "\"schema\":  1"),
              ElementsAre("summary.json: does not follow from the records: the same values, but "
                          "written otherwise from byte 14 on"));
}

TEST_F(VerifyTest, ARoundThatWasTakenOutIsNamed) {
  fs::remove_all(round());
  SealAgain(layout_);
  EXPECT_THAT(Findings(), ElementsAre(StartsWith("summary.json: does not follow from the records: "
                                                 "cases[1k-512-c1].arms.baseline.requests is 4")));
}

TEST_F(VerifyTest, ARoundThatWasSupersededAfterwardsIsNamed) {
  fs::rename(round(), round().string() + ".superseded");
  SealAgain(layout_);
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("cases[1k-512-c1].arms.baseline.requests")));
}

TEST_F(VerifyTest, AChangedCaptureOrBootShows) {
  EXPECT_THAT(AfterForging(layout_.capture(), "\"complete\": true", "\"complete\": false"),
              ElementsAre(HasSubstr("capture.complete is true, recomputed false")));
  Replace(layout_.capture(), "\"complete\": false", "\"complete\": true");
  EXPECT_THAT(AfterForging(layout_.boot(2, "candidate") / kBootFile, "\"host\": \"host-a\"",
                           "\"host\": \"host-b\""),
              ElementsAre(HasSubstr("boots[2].host is \"host-a\", recomputed \"host-b\"")));
}

TEST_F(VerifyTest, AMissingBootIsAFinding) {
  fs::remove_all(layout_.boot(2, "candidate"));
  SealAgain(layout_);
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("summary.json: cannot be recomputed: case "
                                                "1k-512-c1, arm candidate, boot 2, round 1: there "
                                                "is no record of that boot")));
}

TEST_F(VerifyTest, TheWorkloadMustBeTheOneOfTheCapture) {
  EXPECT_THAT(AfterForging(layout_.resolved_plan(), "\"small\"", "\"other\""),
              ElementsAre(StartsWith("plan.resolved.json: its workload has the sha256 ")));
}

TEST_F(VerifyTest, OtherGatesAreTheSameWorkload) {
  EXPECT_THAT(AfterForging(layout_.resolved_plan(), "\"gates\":[]", "\"gates\":[1]"), IsEmpty());
}

TEST_F(VerifyTest, AnUnknownWorkloadMatchesNothing) {
  CaptureRecord capture = CaptureOf();
  capture.workload = "";
  fs::remove(layout_.sums());
  ASSERT_TRUE(WriteCapture(layout_, capture));
  SealAgain(layout_);
  EXPECT_THAT(Findings(), testing::Contains(HasSubstr("but capture.json says nothing")));
}

TEST_F(VerifyTest, EachFileThatCannotBeReadIsAFindingOfItsOwn) {
  Put(layout_.capture(), "{");
  Put(layout_.resolved_plan(), "[]");
  Put(layout_.summary(), "{\"schema\":1}");
  Put(layout_.boot(1, "baseline") / kBootFile, "{}");
  Put(round() / kRequestsFile, "x");
  Put(layout_.round("1k-512-c1", 2, "candidate", 1) / kRoundFile, "{\"schema\":1}");
  Put(layout_.rounds() / "1k-512-c1" / ".writing-01-baseline-r3" / "round.json", "{}");
  fs::remove(layout_.plan());
  SealAgain(layout_);
  EXPECT_THAT(
      Findings(),
      testing::UnorderedElementsAre(
          "plan.yaml: missing", StartsWith("capture.json: not valid JSON"),
          StartsWith("plan.resolved.json: not an object"), "summary.json: \"capture\" is missing",
          "boots/01-baseline/boot.json: \"schema\" is missing",
          StartsWith("rounds/1k-512-c1/01-baseline-r2/requests.jsonl.zst: not a valid zstd frame"),
          "rounds/1k-512-c1/02-candidate-r1/round.json: \"case\" is missing",
          "rounds/1k-512-c1/.writing-01-baseline-r3: is left over from a write that never "
          "finished"));
  EXPECT_THAT(VerifyEvidence(layout_)->not_checked,
              ElementsAre(HasSubstr("whether summary.json follows from the records")));
}

TEST_F(VerifyTest, ARequestMadeFasterIsFound) {
  std::string lines = *base::Decompress(Get(round() / kRequestsFile), kMaxRecordsBytes);
  const std::string from = "\"first_token_ns\":100000000,\"first_text_ns\":100000000";
  const auto at = lines.find(from);
  ASSERT_NE(at, std::string::npos);
  lines.replace(at, from.size(), "\"first_token_ns\":99000000,\"first_text_ns\":99000000");
  Put(round() / kRequestsFile, base::Compress(lines));
  SealAgain(layout_);
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("rounds[boot 1, round 2].ttft_ms.p50 is 100.0, "
                                                "recomputed 99.0")));
}

// The same run as if its servers had run in containers of one image.
class VerifyImagesTest : public VerifyTest {
 protected:
  explicit VerifyImagesTest(const std::string& name = "registry.example:5000/vllm")
      : reference_(name + "@" + image_samples::Sha(image_.index)) {
    fs::remove(layout_.sums());
    const std::string workload = R"({"name":"small","cases":["1k-512-c1","8k"],)"
                                 R"("server":{"launcher":"docker"},"arms":{"baseline":{"image":")" +
                                 reference_ + R"("},"candidate":{"image":")" + reference_ +
                                 R"("}}})";
    Put(layout_.resolved_plan(), R"({"schema":1,"workload":)" + workload + R"(,"gates":[]})");
    Replace(layout_.capture(), base::Sha256Of(kWorkload), base::Sha256Of(workload));
    Replace(layout_.summary(), base::Sha256Of(kWorkload), base::Sha256Of(workload));
  }
  ImageProof Proof() const {
    ImageProof proof;
    proof.reference = reference_;
    proof.platform = image_samples::LinuxAmd64();
    proof.documents = {image_.index, image_.manifest, image_.config};
    proof.containers = {{"after start", base::Sha256Of(image_.config), {}}};
    return proof;
  }
  void WriteProofs() {
    for (const BootRecord& boot : {BootOf("baseline", 1), BootOf("candidate", 2)}) {
      ASSERT_EQ(ErrorOf(WriteImageProof(layout_, boot, Proof())), "(no error)");
    }
  }
  std::vector<std::string> AfterSealing() {
    SealAgain(layout_);
    return Findings();
  }

  image_samples::SampleImage image_{"a"};
  const std::string reference_;
};

TEST_F(VerifyImagesTest, ProofsThatHoldAreNoFinding) {
  WriteProofs();
  EXPECT_THAT(AfterSealing(), IsEmpty());
}

class VerifyLayoutImagesTest : public VerifyImagesTest {
 protected:
  VerifyLayoutImagesTest() : VerifyImagesTest("oci:images:v1") {}
};

TEST_F(VerifyLayoutImagesTest, AProofFromALayoutIsFollowedAsWell) {
  for (const BootRecord& boot : {BootOf("baseline", 1), BootOf("candidate", 2)}) {
    ImageProof proof = Proof();
    proof.strength = ProofStrength::kLayout;
    ASSERT_EQ(ErrorOf(WriteImageProof(layout_, boot, proof)), "(no error)");
  }
  EXPECT_THAT(AfterSealing(), IsEmpty());
  const fs::path config = layout_.boot(1, "baseline") / kImageFolder / kImageConfigFile;
  Replace(config, "\"named\":\"a\"", "\"named\":\"b\"");
  EXPECT_THAT(
      AfterSealing(),
      testing::Contains(StartsWith("boots/01-baseline/image/manifest.json: the manifest " +
                                   image_samples::Sha(image_.manifest) + " names the config ")));
}

TEST_F(VerifyImagesTest, AMeasuredBootWithoutProofIsAFinding) {
  WriteProofs();
  fs::remove_all(layout_.boot(2, "candidate") / kImageFolder);
  EXPECT_THAT(AfterSealing(),
              ElementsAre("boots/02-candidate/image/proof.json: missing: nothing proves which "
                          "image the measured container ran"));
}

TEST_F(VerifyImagesTest, ABootThatMeasuredNothingNeedsNone) {
  WriteProofs();
  fs::remove_all(layout_.boot(2, "candidate") / kImageFolder);
  for (const int round : {1, 2}) {
    fs::remove_all(layout_.round("1k-512-c1", 2, "candidate", round));
  }
  // The summary no longer follows; the image is not what is wrong.
  EXPECT_THAT(AfterSealing(), ElementsAre(StartsWith("summary.json: ")));
}

TEST_F(VerifyImagesTest, ADocumentThatWasChangedIsFoundOffline) {
  WriteProofs();
  const fs::path config = layout_.boot(1, "baseline") / kImageFolder / kImageConfigFile;
  Replace(config, "\"named\":\"a\"", "\"named\":\"b\"");
  const std::string changed = image_samples::Sha(Get(config));
  EXPECT_THAT(
      AfterSealing(),
      ElementsAre("boots/01-baseline/image/manifest.json: the manifest " +
                      image_samples::Sha(image_.manifest) + " names the config " +
                      image_samples::Sha(image_.config) + ", but the config's sha256 is " + changed,
                  "boots/01-baseline/image/proof.json: after start the container ran the "
                  "image " +
                      image_samples::Sha(image_.config) + ", the pin leads to the config " +
                      changed + " of the manifest " + image_samples::Sha(image_.manifest)));
}

TEST_F(VerifyImagesTest, AProofOfAnotherImageThanThePlansIsAFinding) {
  const image_samples::SampleImage other("b");
  ImageProof proof = Proof();
  proof.reference = "registry.example:5000/vllm@" + image_samples::Sha(other.index);
  proof.documents = {other.index, other.manifest, other.config};
  proof.containers[0].image = base::Sha256Of(other.config);
  ASSERT_TRUE(WriteImageProof(layout_, BootOf("baseline", 1), proof));
  ASSERT_TRUE(WriteImageProof(layout_, BootOf("candidate", 2), Proof()));
  EXPECT_THAT(AfterSealing(),
              ElementsAre("boots/01-baseline/image/proof.json: is of the image " + proof.reference +
                          ", the plan pins " + reference_ + " for the arm baseline"));
}

TEST_F(VerifyImagesTest, WhatAWeakProofLeavesOpenIsSaid) {
  WriteProofs();
  ImageProof proof = Proof();
  proof.strength = ProofStrength::kConfig;
  proof.documents = {};
  fs::remove_all(layout_.boot(1, "baseline") / kImageFolder);
  ASSERT_TRUE(WriteImageProof(layout_, BootOf("baseline", 1), proof));
  SealAgain(layout_);
  const auto verified = VerifyEvidence(layout_);
  ASSERT_TRUE(verified);
  EXPECT_THAT(verified->not_checked,
              testing::Contains(StartsWith("boot 1 (baseline): the platform of the image ")));
}

TEST_F(VerifyImagesTest, AProofThatCannotBeReadIsAFindingOfItsOwn) {
  WriteProofs();
  Put(layout_.boot(1, "baseline") / kImageFolder / kImageProofFile, "{}");
  EXPECT_THAT(AfterSealing(),
              ElementsAre("boots/01-baseline/image/proof.json: \"schema\" is missing"));
}

TEST_F(VerifyTest, NoEvidenceIsAnErrorOfKindEvidence) {
  fs::remove_all(layout_.evidence());
  for (const auto& error : {VerifyEvidence(layout_).error(), LoadSealed(layout_).error()}) {
    EXPECT_EQ(error.kind, base::ErrorKind::kEvidence);
    EXPECT_THAT(error.message, HasSubstr("there is no such folder"));
  }
}

TEST_F(VerifyTest, LoadSealedGivesWhatGatesRead) {
  const auto loaded = LoadSealed(layout_);
  ASSERT_TRUE(loaded) << ErrorOf(loaded);
  EXPECT_EQ(loaded->digest, base::Sha256Of(Get(layout_.sums())));
  EXPECT_EQ(loaded->plan_yaml, "version: 1\n");
  EXPECT_EQ(loaded->resolved_plan, Get(layout_.resolved_plan()));
  EXPECT_EQ(WriteSummary(loaded->summary), Get(layout_.summary()));
}

TEST_F(VerifyTest, LoadSealedSaysEachFindingOnALine) {
  fs::remove(layout_.plan());
  Put(layout_.summary(), "not even JSON");
  const auto loaded = LoadSealed(layout_);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, base::ErrorKind::kEvidence);
  const std::string evidence = layout_.evidence().string();
  EXPECT_THAT(loaded.error().message,
              testing::MatchesRegex(evidence + "/plan.yaml: missing\n" + evidence +
                                    "/summary.json: changed since it was sealed: .*"));
}

TEST_F(VerifyTest, LoadSealedRefusesWhatIsNotSealed) {
  fs::remove(layout_.sums());
  EXPECT_EQ(ErrorOf(LoadSealed(layout_)),
            layout_.sums().string() + ": missing: the folder is not sealed");
}

TEST_F(VerifyTest, LoadSealedRefusesASummaryThatDoesNotParse) {
  Put(layout_.summary(), "{\"schema\":1}");
  SealAgain(layout_);
  EXPECT_EQ(ErrorOf(LoadSealed(layout_)), layout_.summary().string() + ": \"capture\" is missing");
}

// A byte of a re-sealed file is flipped: a finding or the same meaning,
// never a crash; and what is found is found in that file or in the summary.
TEST_F(VerifyTest, FlippedBytesOfARecordAreHandled) {
  const Sums sealed = CheckSeal(layout_.evidence())->files;
  for (const fs::path& path : {round() / kRoundFile, layout_.boot(1, "baseline") / kBootFile,
                               layout_.capture(), round() / kRequestsFile}) {
    const std::string good = Get(path);
    const std::string name = path.lexically_relative(layout_.evidence()).generic_string();
    Sums sums = sealed;
    for (std::size_t i = 0; i < good.size(); i += 11) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
      Put(path, bad);
      sums[name] = base::Sha256Of(bad);
      Put(layout_.sums(), WriteSums(sums));
      const auto verified = VerifyEvidence(layout_);
      ASSERT_TRUE(verified) << name << " byte " << i;
      for (const SealFinding& finding : verified->findings) {
        EXPECT_THAT(finding.file, testing::AnyOf(name, "summary.json", "plan.resolved.json",
                                                 StartsWith("rounds/"), StartsWith("boots/")))
            << finding.problem;
      }
    }
    Put(path, good);
  }
}

}  // namespace
}  // namespace upgrade_gate::evidence
