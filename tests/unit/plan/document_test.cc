// What a document may be, before any section of a plan is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "tests/unit/plan/plan_text.h"

namespace upgrade_gate::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// The first error only: after it the document is not read on.
std::string Only(const std::string& yaml) {
  return ErrorsOf(yaml);
}

// Of this process: a busy machine must not fail a test.
double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

TEST(Document, DoubledKeysNameBothPlaces) {
  EXPECT_EQ(Only(Edit(kProcessPlan, "model:", "name: other\nmodel:")),
            "gate.yaml:3:1: doubled key \"name\", first at 2:1");
  EXPECT_EQ(Only(Edit(kProcessPlan, "case: short, max", "case: short, case: long, max")),
            "gate.yaml:18:31: doubled key \"case\", first at 18:18");
  EXPECT_EQ(Only(Edit(kProcessPlan, "model:", "\"name\": other\nmodel:")),
            "gate.yaml:3:1: doubled key \"name\", first at 2:1");
}

TEST(Document, DoubledArmsAreSeen) {
  EXPECT_EQ(Only(Edit(kProcessPlan, "workload:", "  candidate: {like: baseline}\nworkload:")),
            "gate.yaml:12:3: doubled key \"candidate\", first at 10:3");
}

TEST(Document, MergeKeysTagsAndOddKeysAreRefused) {
  EXPECT_EQ(Only("a: &x {b: c}\nd:\n  <<: *x\n"),
            "gate.yaml:3:3: merge keys (<<) are not allowed: write the keys out, or let an arm be "
            "\"like\" another");
  const std::string tag = "tags (words that begin with !) are not allowed in a plan";
  EXPECT_EQ(Only("a: !!python/object:os.system [x]\n"), "gate.yaml:1:4: " + tag);
  EXPECT_EQ(Only("a: !x 1\n"), "gate.yaml:1:4: " + tag);
  EXPECT_EQ(Only("a: ! 1\n"), "gate.yaml:1:4: " + tag);
  EXPECT_EQ(Only("a: !!str 1\n"), "gate.yaml:1:4: " + tag);
  EXPECT_EQ(Only("a: !!map {}\n"), "gate.yaml:1:4: " + tag);
  EXPECT_EQ(Only("a: !!str \"1\"\n"), "gate.yaml:1:4: " + tag);
  EXPECT_EQ(Only("? [a]\n: b\n"), "gate.yaml:1:3: a key must be text, not a list");
  EXPECT_EQ(Only("? {a: b}\n: b\n"), "gate.yaml:1:3: a key must be text, not a mapping");
  EXPECT_EQ(Only("a: &x b\n*x : c\n"), "gate.yaml:2:1: a key must be text, not an alias");
  EXPECT_EQ(Only("a: b\n~: c\n"), "gate.yaml:1:4: a key is missing");
}

TEST(Document, IsOne) {
  EXPECT_EQ(Only("a: b\n---\nc: d\n"),
            "gate.yaml:2:1: a second document begins here: a plan is one document");
  EXPECT_EQ(Only("\"a\" \"b\"\n"), "gate.yaml:1:5: text after the end of the plan");
  EXPECT_EQ(Only(""), "gate.yaml: holds no plan: it is empty, or all of it is a comment");
  EXPECT_EQ(Only("# nothing\n"),
            "gate.yaml: holds no plan: it is empty, or all of it is a comment");
  EXPECT_EQ(Only("---\n" + std::string(kProcessPlan) + "...\n"), "");
}

TEST(Document, IsUtf8Text) {
  EXPECT_EQ(Only("a: é\nb: \xff\n"),
            "gate.yaml:2:4: the byte \\xff is not UTF-8: save the plan as UTF-8 text");
  EXPECT_EQ(Only("a: é\xc3\n"),
            "gate.yaml:1:5: the byte \\xc3 is not UTF-8: save the plan as UTF-8 text");
  EXPECT_EQ(Only(std::string("a: b\0c\n", 7)),
            "gate.yaml:1:5: the control character \\x00 is not allowed in a plan");
  EXPECT_EQ(Only("a: \x1b[2J\n"),
            "gate.yaml:1:4: the control character \\x1b is not allowed in a plan");
  EXPECT_EQ(Only("a: b\rc: d\n"),
            "gate.yaml:1:5: the control character \\x0d is not allowed in a plan");
  EXPECT_EQ(Only("a: \"\\0\"\n"), "gate.yaml:1:4: a NUL character is not allowed");
  // UTF-16 as Windows editors write it.
  EXPECT_EQ(Only(std::string("\xff\xfe"
                             "a\0",
                             4)),
            "gate.yaml:1:1: the byte \\xff is not UTF-8: save the plan as UTF-8 text");
}

TEST(Document, MayHaveAByteOrderMarkAndWindowsLines) {
  EXPECT_EQ(Only("\xef\xbb\xbf" + std::string(kProcessPlan)), "");
  std::string windows;
  for (const char c : kProcessPlan) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(Only(windows), "");
  // The mark takes no column.
  EXPECT_THAT(Only("\xef\xbb\xbfversion: x\r\n"),
              HasSubstr("gate.yaml:1:10: \"version\" must be a whole number, not \"x\""));
}

TEST(Document, ColumnsCountCharacters) {
  EXPECT_THAT(Only(Edit(kProcessPlan, "{served_name: m}", "{served_name: 深度, x: 1}")),
              StartsWith("gate.yaml:3:26: unknown key \"x\""));
}

TEST(Document, SyntaxErrorsAreInPlainWords) {
  EXPECT_EQ(Only("a: b: c\n"),
            "gate.yaml:1:5: a \":\" is not expected here: is the line above indented or quoted as "
            "it should be?");
  EXPECT_EQ(Only("a: [b\nc: d\n"), "gate.yaml:2:2: a \"[\" before this place is never closed");
  EXPECT_EQ(Only("a: {b: c\nd\n"), "gate.yaml:3:1: a \"{\" before this place is never closed");
  EXPECT_EQ(Only("a: b\n]\n"), "gate.yaml:2:1: a \"]\" or \"}\" closes nothing");
  EXPECT_EQ(Only("a: *x\n"), "gate.yaml:1:4: this alias (*) has no anchor (&) before it");
  EXPECT_EQ(Only("a: @x\n"),
            "gate.yaml:1:4: this character cannot begin a value: put the text into quotes");
  EXPECT_EQ(Only("a:\n- b\n- d: e\n f: g\n"),
            "gate.yaml:4:2: this line does not belong to the list above: check the indentation");
  EXPECT_EQ(Only("a: \"\\q\"\n"), "gate.yaml:1:7: not valid YAML: unknown escape character: q");
}

TEST(Document, AnOpenQuoteDoesNotSwallowThePlan) {
  EXPECT_EQ(Only("a: \"b\nc: d\n"), "gate.yaml:1:4: the quote \" is never closed");
  EXPECT_EQ(Only("a: 'b''\nc: d\n"), "gate.yaml:1:4: the quote ' is never closed");
  EXPECT_EQ(Only("a: &x \"b\\\"\nc: d\n"), "gate.yaml:1:4: the quote \" is never closed");
  EXPECT_EQ(
      Only(Edit(kProcessPlan, "name: demo", "name: 'demo'\nnot_covered: ['it''s', \"a\\\"b\"]")),
      "");
}

std::string Laughs(int levels) {
  std::string yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < levels; ++i) {
    const std::string n = std::to_string(i);
    const std::string alias = "*a" + std::to_string(i - 1);
    yaml += "a" + n + ": &a" + n + " [" + alias;
    for (int j = 1; j < 10; ++j) yaml += ", " + alias;
    yaml += "]\n";
  }
  return yaml;
}

TEST(Document, ABillionLaughsEndAtOnce) {
  const double start = CpuSeconds();
  EXPECT_EQ(Only(Laughs(10)), "gate.yaml:5:10: more than 20,000 values (with aliases expanded)");
  EXPECT_LT(CpuSeconds() - start, 1);
}

TEST(Document, AliasesAreCountedExactly) {
  const auto plan = [](int items, int aliases) {
    std::string yaml = "a: &x [1";
    for (int i = 1; i < items; ++i) yaml += ", 1";
    yaml += "]\nb: [*x";
    for (int i = 1; i < aliases; ++i) yaml += ", *x";
    return yaml + "]\n";
  };
  // Root, two keys and the list b are 4; the anchored list is n + 1, and again for each alias.
  // n = 99: 4 + 100 * (1 + k) is 20,004 for k = 199, 19,904 for k = 198.
  EXPECT_THAT(Only(plan(99, 198)), Not(HasSubstr("20,000")));
  EXPECT_THAT(Only(plan(99, 199)), HasSubstr("more than 20,000 values"));
}

TEST(Document, AnAliasInsideItsOwnValueIsRefused) {
  EXPECT_EQ(Only("a: &x [*x]\n"),
            "gate.yaml:1:8: an alias stands inside the value that it repeats");
  EXPECT_EQ(Only("a: &x {b: *x}\n"),
            "gate.yaml:1:11: an alias stands inside the value that it repeats");
}

TEST(Document, DepthIsCappedWithAliasesExpanded) {
  const auto nested = [](int levels) {
    return "a: " + std::string(static_cast<std::size_t>(levels), '[') +
           std::string(static_cast<std::size_t>(levels), ']') + "\n";
  };
  EXPECT_THAT(Only(nested(15)), Not(HasSubstr("deeper")));
  EXPECT_EQ(Only(nested(16)), "gate.yaml:1:19: nested deeper than 16 levels");
  // Root 1, eight lists; then seven lists around an alias of eight: 1 + 7 + 8 = 16.
  const std::string anchored = "a: &x [[[[[[[[]]]]]]]]\n";
  EXPECT_THAT(Only(anchored + "b: [[[[[[[*x]]]]]]]\n"), Not(HasSubstr("deeper")));
  EXPECT_EQ(Only(anchored + "b: [[[[[[[[*x]]]]]]]]\n"),
            "gate.yaml:2:12: nested deeper than 16 levels");
}

TEST(Document, HostileSizesEndQuickly) {
  const double start = CpuSeconds();
  EXPECT_EQ(Only(std::string(2 << 20, 'a')),
            "gate.yaml: longer than 1,048,576 bytes, the most a plan may have");
  EXPECT_EQ(Only(std::string(1 << 20, '[')), "gate.yaml: more than 20,000 brackets");
  EXPECT_EQ(Only(std::string(1 << 20, '{')), "gate.yaml: more than 20,000 brackets");
  for (const std::string piece : {"[", "- ", "? ", "&a ", "!a ", "'", "\"", "*a ",
                                  "{a: ", "a: ", "x: &a b\n", "[?", "|\n", "-\n"}) {
    std::string yaml;
    while (yaml.size() < 19'000 * piece.size()) yaml += piece;
    EXPECT_NE(Only(yaml), "") << piece;
  }
  EXPECT_LT(CpuSeconds() - start, 30);
}

TEST(Document, ThousandsOfErrorsAreNoTrap) {
  const double start = CpuSeconds();
  std::string doubled;
  for (int i = 0; i < 9'000; ++i) doubled += "a:\n";
  EXPECT_THAT(Only(doubled), HasSubstr("\ngate.yaml: and "));
  // Each gate names an unknown case, and there are as many cases to compare with.
  std::string many = Edit(kProcessPlan, "  - throughput: {case: short, max_loss: 3%}\n", "");
  for (int i = 0; i < 2'000; ++i) {
    many +=
        "  - throughput: {case: a-name-of-some-length-" + std::to_string(i) + ", min: 1tok/s}\n";
  }
  std::string cases;
  for (int i = 0; i < 500; ++i) {
    cases += "    - {name: A-name-of-some-length-" + std::to_string(i) +
             ", input_tokens: 1, output_tokens: 1, concurrency: 1, requests: 1}\n";
  }
  many = Edit(many, "  cases:\n", "  cases:\n" + cases);
  EXPECT_THAT(Only(many), HasSubstr("\ngate.yaml: and 1950 more errors"));
  EXPECT_LT(CpuSeconds() - start, 30);
}

TEST(Document, BinaryIsRefused) {
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes += static_cast<char>(i * 37 % 256);
  EXPECT_THAT(Only(bytes), AllOf(StartsWith("gate.yaml:1:1: "), HasSubstr("\\x00")));
  EXPECT_EQ(Only("\x7f"
                 "ELF"),
            "gate.yaml:1:1: the control character \\x7f is not allowed in a plan");
}

TEST(Document, AnErrorInAnAnchoredValueIsListedOnce) {
  std::string plan = Edit(kProcessPlan, "    - {name: short",
                          "    - {name: x, input_tokens: &n 0, output_tokens: *n, concurrency: 1, "
                          "requests: 1}\n    - {name: short");
  EXPECT_EQ(ErrorsOf(plan),
            "gate.yaml:15:31: \"input_tokens\" must be from 1 to 10,000,000, not \"0\"\n"
            "gate.yaml:15:31: \"output_tokens\" must be from 1 to 1,000,000, not \"0\"");
  plan = Edit(kProcessPlan, "{kind: synthetic-tokens, seed: 7}",
              "&p {kind: synthetic-tokens, sed: 7, seed: 7}\n  sampling: {}");
  EXPECT_EQ(ErrorsOf(plan), "gate.yaml:13:40: unknown key \"sed\" (did you mean \"seed\"?)");
}

TEST(Document, AnchorsAndAliasesWorkForPlainValues) {
  const ResolvedPlan plan =
      MustResolve(Edit(kProcessPlan, "    - {name: short, input_tokens: 64, output_tokens: 16",
                       "    - {name: short, input_tokens: &n 64, output_tokens: *n"));
  ASSERT_EQ(plan.workload.cases.size(), 2U);
  EXPECT_EQ(plan.workload.cases[0].output_tokens, 64);
}

}  // namespace
}  // namespace upgrade_gate::plan
