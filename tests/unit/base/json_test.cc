#include "framework/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <limits>
#include <string>

#include "framework/base/text.h"

namespace upgrade_gate::base {
namespace {

using testing::HasSubstr;

std::string ErrorIn(const std::string& text) {
  const auto json = ParseJson(text);
  if (json) return "(no error)";
  EXPECT_EQ(json.error().kind, ErrorKind::kEvidence);
  return json.error().message;
}

TEST(ParseJsonTest, KeepsOrderTypesAndNesting) {
  const std::string text =
      R"({"z":1,"a":[true,null,-2,1.5,"é\u0000",{"k":{"k":[]}}],"m":18446744073709551615})";
  const auto json = ParseJson(text);
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(WriteJsonLine(*json), text);
}

TEST(ParseJsonTest, ItsMessagesQuoteHostileBytesMadeVisible) {
  for (const std::string text : {"{\"a\":[],\xa2s", "\"\xff", "[1,\x1b[31m"}) {
    const auto json = ParseJson(text);
    ASSERT_FALSE(json);
    EXPECT_TRUE(IsValidUtf8(json.error().message)) << text;
    EXPECT_EQ(json.error().message.find('\x1b'), std::string::npos);
  }
}

TEST(ParseJsonTest, TakesAScalarAndSpaceAround) {
  EXPECT_EQ(*ParseJson(" 1 \n"), 1);
  EXPECT_TRUE(ParseJson("null")->is_null());
}

TEST(ParseJsonTest, RefusesDoubledKeysAtAnyDepth) {
  EXPECT_EQ(ErrorIn(R"({"a":1,"a":1})"), "not valid JSON: doubled key \"a\"");
  EXPECT_THAT(ErrorIn(R"([{"b":{"a":1,"c":2,"a":3}}])"), HasSubstr("doubled key \"a\""));
  EXPECT_THAT(ErrorIn(R"({"a":1,"\u0061":2})"), HasSubstr("doubled key \"a\""));
  EXPECT_EQ(ErrorIn(R"({"a":{"a":1},"b":[{"a":1},{"a":2}]})"), "(no error)");
}

TEST(ParseJsonTest, RefusesNestingOver64Levels) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(ErrorIn(nested(64)), "(no error)");
  EXPECT_EQ(ErrorIn(nested(65)), "not valid JSON: nested deeper than 64 levels");
  EXPECT_THAT(ErrorIn(std::string(1'000'000, '[')), HasSubstr("nested deeper"));
  std::string objects;
  for (int i = 0; i < 65; ++i) objects += "{\"a\":";
  EXPECT_THAT(ErrorIn(objects), HasSubstr("nested deeper"));
}

TEST(ParseJsonTest, RefusesWhatIsNotJsonAndSaysWhere) {
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\"}", "{'a':1}", "nul", "01", "+1", ".5",
                           "1.", "\"\n\"", "\"\\x\"", "// c\n1", "\xef\xbb\xbf{", "\"\xff\""}) {
    EXPECT_THAT(ErrorIn(text), HasSubstr("not valid JSON: byte ")) << text;
  }
}

TEST(ParseJsonTest, RefusesTrailingBytes) {
  EXPECT_THAT(ErrorIn("{} {}"), HasSubstr("not valid JSON: byte 4"));
  EXPECT_THAT(ErrorIn("1x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorIn(std::string("1\0", 2)), HasSubstr("not valid JSON"));
}

TEST(ParseJsonTest, RefusesNumbersThatAreNone) {
  for (const char* text : {"NaN", "Infinity", "-Infinity", "1e999", "-1e999", "0x10"}) {
    EXPECT_THAT(ErrorIn(text), HasSubstr("not valid JSON")) << text;
  }
}

TEST(ParseJsonTest, ManyKeysTakeNoQuadraticTime) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"" + std::to_string(i) + "\":0,";
  text.back() = '}';
  const std::clock_t start = std::clock();  // of this process: a busy machine does not count
  const auto json = ParseJson(text);
  const std::clock_t spent = std::clock() - start;
  EXPECT_EQ(json->size(), 200'000U);
  // Searching the object for each key takes minutes; this takes about a second.
  EXPECT_LT(spent / CLOCKS_PER_SEC, 20);
}

TEST(WriteJsonTest, IsIndentedAndEndsWithANewline) {
  EXPECT_EQ(WriteJson(Json{{"b", 1}, {"a", nullptr}}), "{\n  \"b\": 1,\n  \"a\": null\n}\n");
  EXPECT_EQ(WriteJsonLine(Json{{"b", 1}, {"a", nullptr}}), "{\"b\":1,\"a\":null}");
}

TEST(WriteJsonTest, ReplacesBrokenBytesInsteadOfThrowing) {
  EXPECT_EQ(WriteJsonLine(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

TEST(WriteJsonTest, DoublesComeBackExactly) {
  for (const double value :
       {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789.123456789, 100.0}) {
    EXPECT_EQ(ParseJson(WriteJsonLine(Json(value)))->get<double>(), value);
  }
  EXPECT_EQ(WriteJsonLine(Json(0.1)), "0.1");
  EXPECT_EQ(WriteJsonLine(Json(100.0)), "100.0");
}

TEST(WriteJsonTest, NothingIsEverNaN) {
  EXPECT_EQ(WriteJsonLine(Json(std::numeric_limits<double>::quiet_NaN())), "null");
  EXPECT_EQ(WriteJsonLine(OrNull(std::optional<int>())), "null");
  EXPECT_EQ(WriteJsonLine(OrNull(std::optional<int>(3))), "3");
}

TEST(MemberTest, GivesTheTypeAskedForOrSaysWhatIsWrong) {
  const Json object = {{"s", "text"}, {"i", -3}, {"d", 1.5}, {"b", true}, {"n", nullptr}};
  EXPECT_EQ(*StringMember(object, "s"), "text");
  EXPECT_EQ(*IntMember(object, "i"), -3);
  EXPECT_EQ(*NumberMember(object, "d"), 1.5);
  EXPECT_EQ(*NumberMember(object, "i"), -3.0);
  EXPECT_EQ(*BoolMember(object, "b"), true);
  EXPECT_TRUE((*Member(object, "n"))->is_null());
  EXPECT_EQ(StringMember(object, "x").error().message, "\"x\" is missing");
  EXPECT_EQ(StringMember(object, "i").error().message, "\"i\" is not a string");
  EXPECT_EQ(IntMember(object, "d").error().message, "\"d\" is not an integer");
  EXPECT_EQ(IntMember(object, "b").error().message, "\"b\" is not an integer");
  EXPECT_EQ(NumberMember(object, "n").error().message, "\"n\" is not a number");
  EXPECT_EQ(BoolMember(object, "i").error().message, "\"i\" is not true or false");
  EXPECT_EQ(Member(Json::array(), "x").error().message, "not an object where one was expected");
}

TEST(MemberTest, AnIntegerBeyond64BitsWithASignIsNotTurnedNegative) {
  EXPECT_EQ(*IntMember(*ParseJson(R"({"i":9223372036854775807})"), "i"),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(*IntMember(*ParseJson(R"({"i":-9223372036854775808})"), "i"),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_FALSE(IntMember(*ParseJson(R"({"i":9223372036854775808})"), "i"));
  EXPECT_FALSE(IntMember(*ParseJson(R"({"i":18446744073709551615})"), "i"));
  EXPECT_FALSE(IntMember(*ParseJson(R"({"i":99999999999999999999})"), "i"));
}

}  // namespace
}  // namespace upgrade_gate::base
