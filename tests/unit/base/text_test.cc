#include "framework/base/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

namespace upgrade_gate::base {
namespace {

TEST(VisibleTest, LeavesPlainTextAlone) {
  EXPECT_EQ(Visible("plain text, ü – 漢字 🙂 \\x1b ]]> <&>"),
            "plain text, ü – 漢字 🙂 \\x1b ]]> <&>");
  EXPECT_EQ(Visible(""), "");
}

TEST(VisibleTest, ShowsControlsOfTerminals) {
  EXPECT_EQ(Visible("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(Visible(std::string("\0\a\x7f", 3)), "\\x00\\x07\\x7f");
  EXPECT_EQ(Visible("\xc2\x9b"), "\\u009b");  // the one-character CSI of C1
  EXPECT_EQ(Visible("a\r\n\tb"), "a\\x0d\\x0a\\x09b");
  EXPECT_EQ(Visible("a\r\n\tb", /*keep_lines=*/true), "a\\x0d\n\tb");
}

TEST(VisibleTest, ShowsWhatReordersOrHidesText) {
  EXPECT_EQ(Visible("\u202e"), "\\u202e");
  EXPECT_EQ(Visible("\u2066\u2069"), "\\u2066\\u2069");
  EXPECT_EQ(Visible("\u200e\u200f\u061c"), "\\u200e\\u200f\\u061c");
  EXPECT_EQ(Visible("\u2028\u2029\ufeff"), "\\u2028\\u2029\\ufeff");
}

TEST(VisibleTest, ShowsWhatXmlForbids) {
  EXPECT_EQ(Visible("\xef\xbf\xbe\xef\xbf\xbf"), "\\ufffe\\uffff");
  EXPECT_EQ(Visible("\xf0\x9f\xbf\xbe"), "\\u1fffe");
  EXPECT_EQ(Visible("\xef\xb7\x90"), "\\ufdd0");
  EXPECT_EQ(Visible("\xef\xbf\xbd"), "\xef\xbf\xbd");  // U+FFFD itself is legal
}

TEST(VisibleTest, ShowsBrokenBytesOneByOne) {
  EXPECT_EQ(Visible("a\xff"), "a\\xff");
  EXPECT_EQ(Visible("\xc3"), "\\xc3");                             // cut short
  EXPECT_EQ(Visible("\xe2\x82"), "\\xe2\\x82");                    // cut short
  EXPECT_EQ(Visible("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(Visible("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(Visible("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // over U+10FFFF
  EXPECT_EQ(Visible("\x80z"), "\\x80z");
}

TEST(VisibleTest, WhatIsVisibleStaysAsItIs) {
  const std::string once = Visible("\x1b\xff\u202e\xc2\x9b\n");
  EXPECT_EQ(Visible(once), once);
  EXPECT_TRUE(IsValidUtf8(once));
}

TEST(ShortenTest, CutsAtACharactersBorder) {
  EXPECT_EQ(Shorten("abcdef", 6), "abcdef");
  EXPECT_EQ(Shorten("abcdefg", 6), "abc…");  // the ellipsis takes three bytes
  EXPECT_EQ(Shorten("aüüü", 6), "aü…");
  EXPECT_EQ(Shorten("üüüü", 6), "ü…");  // a cut at byte 3 would halve the second
  EXPECT_TRUE(IsValidUtf8(Shorten("漢字漢字", 7)));
}

TEST(ShortenTest, NeverExceedsALimitThatHoldsTheEllipsis) {
  for (std::size_t limit = 3; limit < 20; ++limit) {
    EXPECT_LE(Shorten("漢字ü漢字ü漢字", limit).size(), limit);
  }
}

TEST(NearestTest, FindsWhatWasMeant) {
  EXPECT_EQ(Nearest("p9O", {"p50", "p90", "p95"}), "p90");
  EXPECT_EQ(Nearest("candidat", {"baseline", "candidate"}), "candidate");
  EXPECT_EQ(Nearest("zzzzzz", {"baseline", "candidate"}), std::nullopt);
  EXPECT_EQ(Nearest("ab", {"xy"}), std::nullopt);  // not one letter in common
  EXPECT_EQ(Nearest("x", {}), std::nullopt);
  EXPECT_EQ(Nearest("abc", {"abd", "abc"}), "abc");
}

TEST(DidYouMeanTest, IsASuffixOrNothing) {
  EXPECT_EQ(DidYouMean("p9O", {"p90"}), " (did you mean \"p90\"?)");
  EXPECT_EQ(DidYouMean("zzzzzz", {"p90"}), "");
}

TEST(IsValidUtf8Test, KnowsTheEdges) {
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8("\xf4\x8f\xbf\xbf"));  // U+10FFFF
  EXPECT_TRUE(IsValidUtf8("\xed\x9f\xbf"));      // U+D7FF
  EXPECT_FALSE(IsValidUtf8("\xed\xbf\xbf"));     // U+DFFF
  EXPECT_FALSE(IsValidUtf8("\xe0\x9f\xbf"));     // overlong
  EXPECT_FALSE(IsValidUtf8("\xf8\x88\x80\x80\x80"));
  EXPECT_FALSE(IsValidUtf8("ok\xc3"));
}

TEST(JoinListTest, ReadsAsPeopleWrite) {
  EXPECT_EQ(JoinList({}), "");
  EXPECT_EQ(JoinList({"a"}), "a");
  EXPECT_EQ(JoinList({"a", "b"}), "a and b");
  EXPECT_EQ(JoinList({"a", "b", "c"}, "or"), "a, b or c");
}

TEST(WithThousandsTest, GroupsDigitsOfBothSigns) {
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(1968), "1,968");
  EXPECT_EQ(WithThousands(1'000'000), "1,000,000");
  EXPECT_EQ(WithThousands(-999), "-999");
  EXPECT_EQ(WithThousands(-123'456), "-123,456");
  EXPECT_EQ(WithThousands(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(DisplayWidthTest, CountsCharacters) {
  EXPECT_EQ(DisplayWidth("abc"), 3U);
  EXPECT_EQ(DisplayWidth("12.3 %†"), 7U);
  EXPECT_EQ(DisplayWidth(""), 0U);
}

TEST(IsPlainNameTest, IsSafeAsAFileNameAndATestName) {
  for (const char* name : {"a", "8k-256-c8", "open-0.3", "A_b", "0"}) {
    EXPECT_TRUE(IsPlainName(name)) << name;
  }
  EXPECT_TRUE(IsPlainName(std::string(64, 'a')));
  EXPECT_FALSE(IsPlainName(std::string(65, 'a')));
  EXPECT_FALSE(IsPlainName(std::string("a\0b", 3)));
  for (const char* name : {"", ".", "..", ".hidden", "-option", "_x", "a/b", "a b", "a\n", "ü",
                           "a:b", "a*", "a\\b", "$a"}) {
    EXPECT_FALSE(IsPlainName(name)) << name;
  }
}

}  // namespace
}  // namespace upgrade_gate::base
