#include "framework/load/event_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/load/response_reader.h"

namespace upgrade_gate::load {
namespace {

using ::testing::Optional;

const std::string kEvent = R"({"id":"c","choices":[{"index":0,"text": "ab","logprobs":null}]})";

std::string With(const std::string& text) {
  return R"({"id":"c","choices":[{"index":0,"text": ")" + text + R"(","logprobs":null}]})";
}

TEST(EventPatternTest, MatchesTheSameEventWithAnotherText) {
  EventPattern pattern;
  EXPECT_FALSE(pattern.Match(kEvent));
  pattern.Learn(kEvent, "text", "ab", 3);
  EXPECT_EQ(pattern.choice(), 3U);
  EXPECT_THAT(pattern.Match(kEvent), Optional(std::string_view("ab")));
  EXPECT_THAT(pattern.Match(With("x")), Optional(std::string_view("x")));
  EXPECT_THAT(pattern.Match(With("你好 }")), Optional(std::string_view("你好 }")));
  pattern.Clear();
  EXPECT_FALSE(pattern.Match(kEvent));
}

TEST(EventPatternTest, LeavesToTheParserWhatMayMeanSomethingElse) {
  EventPattern pattern;
  pattern.Learn(kEvent, "text", "ab", 0);
  for (const std::string& text : {std::string(), std::string("a\"b"), std::string("a\\nb"),
                                  std::string("a\nb"), std::string("\xff"), std::string("\xc3"),
                                  std::string(1, '\0'), std::string(R"(a","text":"b)")}) {
    EXPECT_FALSE(pattern.Match(With(text))) << text;
  }
  EXPECT_FALSE(pattern.Match(R"({"id":"d","choices":[{"index":0,"text": "ab","logprobs":null}]})"));
  EXPECT_FALSE(pattern.Match(kEvent + " "));
  EXPECT_FALSE(pattern.Match(kEvent.substr(1)));
  EXPECT_FALSE(pattern.Match(""));
}

TEST(EventPatternTest, LearnsOnlyWhereOneReadingIsPossible) {
  const std::vector<std::string> ambiguous = {
      R"({"text":"ab","choices":[{"text":"ab"}]})",       // which of them?
      R"({"text":"ab","choices":[{"\u0074ext":"ab"}]})",  // the other one, in fact
      R"({"choices":[{"text":"\u0061b"}]})",              // not written as it reads
      R"({"choices":[{"text":["ab"]}]})",
      R"({"choices":[{"TEXT":"ab"}]})",
      R"({"choices":[{"text":"abc"}]})",
      R"({"choices":[{"text":"ab"}],"x":")" + std::string(5000, 'x') + "\"}"};
  for (const std::string& event : ambiguous) {
    EventPattern pattern;
    pattern.Learn(event, "text", "ab", 0);
    EXPECT_FALSE(pattern.Match(event)) << event.substr(0, 80);
  }
}

// With and without the recognition a stream must read the same.
void ExpectSame(const std::vector<std::string>& events, bool chat) {
  const auto read = [&](bool recognise) {
    ReaderCaps caps;
    caps.recognise_repeats = recognise;
    ResponseReader reader(caps);
    reader.Reset({.api = chat ? plan::Api::kChat : plan::Api::kCompletions, .choices = 2});
    reader.OnHeaders(200, "text/event-stream", "");
    for (std::size_t i = 0; i < events.size(); ++i) {
      reader.OnBody("data: " + events[i] + "\n\n", base::Instant(std::chrono::milliseconds(i + 1)));
    }
    reader.OnEnd(EndKind::kComplete, "", base::Instant(std::chrono::seconds(9)));
    return reader.observation();
  };
  const Observation with = read(true), without = read(false);
  EXPECT_EQ(with.events, without.events);
  EXPECT_EQ(with.chunks, without.chunks);
  EXPECT_EQ(with.text_bytes, without.text_bytes);
  EXPECT_EQ(with.reasoning_bytes, without.reasoning_bytes);
  EXPECT_EQ(with.choices_with_output, without.choices_with_output);
  EXPECT_EQ(with.choices_finished, without.choices_finished);
  EXPECT_EQ(with.token_ids, without.token_ids);
  EXPECT_EQ(with.first_token, without.first_token);
  EXPECT_EQ(with.first_text, without.first_text);
  EXPECT_EQ(with.last_token, without.last_token);
  EXPECT_EQ(with.usage_problem, without.usage_problem);
  EXPECT_EQ(with.notes, without.notes);
  EXPECT_EQ(with.malformed, without.malformed);
  EXPECT_EQ(with.in_band_error, without.in_band_error);
}

TEST(EventPatternTest, AStreamReadsTheSameWithIt) {
  const auto text = [](const std::string& value, int index = 0, const std::string& more = "") {
    return R"({"choices":[{"index":)" + std::to_string(index) + R"(,"text":")" + value + "\"" +
           more + "}]}";
  };
  ExpectSame({text("a"), text("b"), text("\\n"), text(""), text("c"), text("d", 1), text("e", 1),
              text("f"), text("\xef\xbf\xbd"), text("\xef\xbf\xbd"), text("g")},
             false);
  ExpectSame({text("a"), text("b"), text("c", 0, R"(,"finish_reason":"stop")"), text("late"),
              text("later")},
             false);
  ExpectSame({text("a", 0, R"(,"token_ids":[1])"), text("b", 0, R"(,"token_ids":[1])")}, false);
  ExpectSame({R"({"choices":[{"text":"a"}],"usage":{"prompt_tokens":1,"completion_tokens":1}})",
              R"({"choices":[{"text":"b"}],"usage":{"prompt_tokens":1,"completion_tokens":2}})"},
             false);
  ExpectSame({R"({"choices":[{"text":"a"},{"index":1,"text":""}]})",
              R"({"choices":[{"text":"bc"},{"index":1,"text":""}]})"},
             false);
  const auto delta = [](const std::string& value, const std::string& more = "") {
    return R"({"choices":[{"delta":{"content":")" + value + "\"" + more + "}}]}";
  };
  ExpectSame(
      {delta("a"), delta("b"), delta("c", R"(,"reasoning":"r")"), delta("d", R"(,"reasoning":"r")"),
       delta("e", R"(,"tool_calls":[{"index":0}])"), delta("f")},
      true);
}

}  // namespace
}  // namespace upgrade_gate::load
