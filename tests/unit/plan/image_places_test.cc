#include "framework/plan/image_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace upgrade_gate::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// "a+b: line:column offset text" each, or the error.
std::vector<std::string> Places(const std::string& yaml) {
  const auto images = FindImages(yaml, "gate.yaml");
  if (!images) return {images.error().message};
  std::vector<std::string> lines;
  for (const ImagePlace& place : images->places) {
    EXPECT_EQ(yaml.substr(place.offset, place.text.size()), place.text);
    std::string arms;
    for (const std::string& arm : place.arms) arms += (arms.empty() ? "" : "+") + arm;
    lines.push_back(arms + ": " + std::to_string(place.at.line) + ":" +
                    std::to_string(place.at.column) + " " + place.text);
  }
  return lines;
}

// All places changed to "NEW".
std::string Edited(const std::string& yaml) {
  const auto images = FindImages(yaml, "gate.yaml");
  if (!images) return images.error().message;
  std::vector<ImageEdit> edits;
  // In another order than that of the file, which must not matter.
  for (auto it = images->places.rbegin(); it != images->places.rend(); ++it) {
    edits.push_back({*it, "NEW"});
  }
  return WithImages(yaml, edits);
}

TEST(ImagePlaces, AreFoundInEveryStyle) {
  EXPECT_THAT(
      Places("arms:\n"
             "  a: {image: registry.example:5000/x:1, append: [y]}\n"
             "  b:\n"
             "    image: \"x:2\"  # why\n"
             "  c:\n"
             "    image:\n"
             "      'x:3'\n"
             "  d: {\"image\": x:4}\n"),
      ElementsAre("a: 2:14 registry.example:5000/x:1", "b: 4:12 x:2", "c: 7:7 x:3", "d: 8:16 x:4"));
}

TEST(ImagePlaces, NothingElseIsTouched) {
  const std::string yaml =
      "\xef\xbb\xbf# Prüfung\r\n"
      "server: {launcher: docker}\r\n"
      "arms:\r\n"
      "  \"gr\xc3\xbc\xc3\x9f\": {like: b, image: 'x:1' } # image: x:1\r\n"
      "  b:   { image:   x:2   , append:  [ \"x:2\" ] }\r\n"
      "notes: x:1";
  std::string expected = yaml;
  expected.replace(expected.find("'x:1'") + 1, 3, "NEW");
  expected.replace(expected.find("x:2 "), 3, "NEW");
  EXPECT_EQ(Edited(yaml), expected);
}

TEST(ImagePlaces, ATextBehindAnAnchorIsChangedOnceForAllWhoRepeatIt) {
  const std::string yaml = "arms:\n  a: {image: &it \"x:1\"}\n  b: {image: *it}\n";
  EXPECT_THAT(Places(yaml), ElementsAre(testing::StartsWith("a+b: 2:")));
  EXPECT_EQ(Edited(yaml), "arms:\n  a: {image: &it \"NEW\"}\n  b: {image: *it}\n");
  EXPECT_EQ(Edited("arms:\n  a:\n    image: &it\n      x:1\n"),
            "arms:\n  a:\n    image: &it\n      NEW\n");
}

TEST(ImagePlaces, WhatAnImageFileWasBuiltFromIsOneToo) {
  const std::string yaml =
      "arms:\n"
      "  a:\n"
      "    built_from: x:1  # the vendor's\n"
      "    image_file: {path: x.sif, sha256: y}\n"
      "  b: {image: &it 'oci:images/x:2'}\n"
      "  c: {built_from: *it}\n";
  EXPECT_THAT(Places(yaml), ElementsAre("a: 3:17 x:1", testing::StartsWith("b+c: 5:")));
  std::string expected = yaml;
  expected.replace(expected.find("x:1"), 3, "NEW");
  expected.replace(expected.find("oci:images/x:2"), 14, "NEW");
  EXPECT_EQ(Edited(yaml), expected);
}

TEST(ImagePlaces, WhatStandsElsewhereIsNoImageOfAnArm) {
  EXPECT_THAT(Places("image: x\nserver: {image: x}\narms: {a: {env: {image: x}}}\n"), IsEmpty());
  for (const char* yaml :
       {"arms: x\n", "arms: [a]\n", "arms: {a: x}\n", "arms: {a: {image: [x]}}\n",
        "arms: {a: {image: }}\n", "arms: {a: {image: {path: x}}}\n", "x\n"}) {
    EXPECT_THAT(Places(yaml), IsEmpty()) << yaml;
  }
}

TEST(ImagePlaces, ATextThatIsWrittenOtherwiseIsNotGuessed) {
  const std::string why =
      " must stand on one line and without escapes, so that its pin can be put there";
  EXPECT_THAT(Places("arms:\n  a:\n    image: >-\n      x:1\n"),
              ElementsAre("gate.yaml:3:12: the image \"x:1\"" + why));
  EXPECT_THAT(Places("arms: {a: {image: \"x\\x3a1\"}}\n"),
              ElementsAre("gate.yaml:1:19: the image \"x:1\"" + why));
}

TEST(ImagePlaces, BrokenYamlIsAnErrorWithItsPlace) {
  EXPECT_THAT(Places("arms: {a: {image: x}\n"), ElementsAre(HasSubstr("gate.yaml:")));
  EXPECT_THAT(Places("arms: {a: {image: x, image: y}}\n"), ElementsAre(HasSubstr("doubled key")));
  EXPECT_THAT(Places(""), ElementsAre(HasSubstr("holds no plan")));
}

TEST(ImagePlaces, WhetherThePlanEverPullsIsSaid) {
  EXPECT_TRUE(FindImages("server: {pull: never}\narms: {a: {image: x}}\n", "g")->pull_never);
  EXPECT_FALSE(FindImages("server: {pull: missing}\narms: {a: {image: x}}\n", "g")->pull_never);
  EXPECT_FALSE(FindImages("arms: {a: {image: x}}\n", "g")->pull_never);
}

}  // namespace
}  // namespace upgrade_gate::plan
