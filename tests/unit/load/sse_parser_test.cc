#include "framework/load/sse_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace upgrade_gate::load {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr base::Instant kStart{std::chrono::seconds(1)};

// Events as "type|data".
std::vector<std::string> Events(const std::vector<std::string>& pieces, SseCaps caps = {},
                                std::string* over_cap = nullptr,
                                std::string* unfinished = nullptr) {
  std::vector<std::string> events;
  SseParser parser(
      [&](const SseEvent& event) {
        events.push_back(std::string(event.type) + "|" + std::string(event.data));
      },
      caps);
  for (const std::string& piece : pieces) parser.Feed(piece, kStart);
  if (over_cap != nullptr) *over_cap = parser.over_cap();
  if (unfinished != nullptr) *unfinished = parser.unfinished();
  return events;
}

// The events of the body, whole; fails if any split of its bytes gives others.
std::vector<std::string> EventsAtEverySplit(const std::string& body) {
  const std::vector<std::string> whole = Events({body});
  std::vector<std::string> single;
  for (std::size_t i = 0; i < body.size(); ++i) {
    EXPECT_EQ(Events({body.substr(0, i), body.substr(i)}), whole) << "split at byte " << i;
    single.push_back(body.substr(i, 1));
  }
  EXPECT_EQ(Events(single), whole) << "byte by byte";
  return whole;
}

TEST(SseParser, TakesAllThreeLineEnds) {
  EXPECT_THAT(EventsAtEverySplit("data: a\n\ndata: b\r\n\r\ndata: c\r\r"),
              ElementsAre("message|a", "message|b", "message|c"));
  EXPECT_THAT(EventsAtEverySplit("data: a\r\n\ndata: b\n\r\ndata: c\r\n\rdata: d\n\r"),
              ElementsAre("message|a", "message|b", "message|c", "message|d"));
}

TEST(SseParser, JoinsDataLinesWithLfAndKeepsEmptyOnes) {
  EXPECT_THAT(EventsAtEverySplit("data: a\ndata:\ndata: b\ndata\n\n"),
              ElementsAre("message|a\n\nb\n"));
  EXPECT_THAT(EventsAtEverySplit("data: a\r\ndata: b\r\n\r\ndata: a\rdata: b\r\r"),
              ElementsAre("message|a\nb", "message|a\nb"));
}

TEST(SseParser, RemovesOneSpaceOnly) {
  EXPECT_THAT(EventsAtEverySplit("data:a\n\ndata: a\n\ndata:  a\n\ndata:\ta\n\ndata:a: b\n\n"),
              ElementsAre("message|a", "message|a", "message| a", "message|\ta", "message|a: b"));
}

TEST(SseParser, DispatchesEmptyDataButNotItsAbsence) {
  EXPECT_THAT(EventsAtEverySplit("data\n\n"), ElementsAre("message|"));
  EXPECT_THAT(EventsAtEverySplit("data:\n\n"), ElementsAre("message|"));
  EXPECT_THAT(EventsAtEverySplit("\n\n\r\n\nevent: x\n\nid: 1\n\nretry: 5\n\n"), IsEmpty());
}

TEST(SseParser, IgnoresCommentsIdsRetriesAndUnknownFields) {
  EXPECT_THAT(EventsAtEverySplit(": ping\n:\nid: 7\nretry: 10\nretry: x\nerror: {\"code\":400}\n"
                                 " data: indented\nDATA: case\ndatax: y\ndata: a\n\n"),
              ElementsAre("message|a"));
}

TEST(SseParser, EventTypeLastsForOneEvent) {
  EXPECT_THAT(EventsAtEverySplit("event: error\ndata: a\n\ndata: b\n\nevent: x\nevent:\ndata: c\n\n"
                                 "event: gone\n\ndata: d\n\n"),
              ElementsAre("error|a", "message|b", "message|c", "message|d"));
}

TEST(SseParser, DropsAnUnfinishedEventAtTheEnd) {
  for (const char* end : {"data: b", "data: b\n", "data: b\r\n", "event: x\ndata: b\n:"}) {
    EXPECT_THAT(EventsAtEverySplit("data: a\n\n"s + end), ElementsAre("message|a"));
  }
}

TEST(SseParser, SaysWhatWasUnfinished) {
  const auto unfinished = [](const std::string& body) {
    std::string text;
    Events({body}, {}, nullptr, &text);
    return text;
  };
  EXPECT_EQ(unfinished("data: a\n\n"), "");
  EXPECT_EQ(unfinished("data: a\n\n: ping"), "");
  EXPECT_EQ(unfinished("data: a\n\nid: 3\n"), "");
  EXPECT_EQ(unfinished("data: [DONE]"), "data: [DONE]");
  EXPECT_EQ(unfinished("data: [DONE]\n"), "[DONE]");
  EXPECT_EQ(unfinished("data: a\ndata: b"), "a\ndata: b");
}

TEST(SseParser, SkipsOneByteOrderMarkAtTheStartOnly) {
  EXPECT_THAT(EventsAtEverySplit("\xef\xbb\xbf"
                                 "data: a\n\n"),
              ElementsAre("message|a"));
  EXPECT_THAT(EventsAtEverySplit("\xef\xbb\xbf\xef\xbb\xbf"
                                 "data: a\n\ndata: b\n\n"),
              ElementsAre("message|b"));
  EXPECT_THAT(EventsAtEverySplit("data: a\n\n\xef\xbb\xbf"
                                 "data: b\n\n"),
              ElementsAre("message|a"));
  // Not a mark after all: the line keeps its bytes and is an unknown field.
  EXPECT_THAT(EventsAtEverySplit("\xef\xbb"
                                 "data: a\n\ndata: b\n\n"),
              ElementsAre("message|b"));
}

TEST(SseParser, PassesEveryByteOfData) {
  std::string all;
  for (int c = 0; c < 256; ++c) {
    if (c != '\n' && c != '\r') all.push_back(static_cast<char>(c));
  }
  EXPECT_THAT(EventsAtEverySplit("data:x" + all + "\n\n"), ElementsAre("message|x" + all));
}

TEST(SseParser, StampsAnEventWithTheReadThatEndedIt) {
  std::vector<base::Instant> stamps;
  SseParser parser([&](const SseEvent& event) { stamps.push_back(event.at); });
  const auto at = [](int ms) { return kStart + std::chrono::milliseconds(ms); };
  parser.Feed("data: a\n", at(1));
  parser.Feed("\ndata: b\r", at(2));
  parser.Feed("\n\r", at(3));  // the CR ends the event; its LF is not waited for
  parser.Feed("\n", at(4));
  EXPECT_THAT(stamps, ElementsAre(at(2), at(3)));
}

TEST(SseParser, CapsTheLine) {
  const SseCaps caps{.line_bytes = 10, .event_bytes = 100};
  std::string over;
  EXPECT_THAT(Events({"data: 1234\n\n"}, caps, &over), ElementsAre("message|1234"));
  EXPECT_EQ(over, "");
  const std::string body = "data: 1\n\ndata: 12345\n\ndata: 2\n\n";
  for (std::size_t i = 0; i <= body.size(); ++i) {
    EXPECT_THAT(Events({body.substr(0, i), body.substr(i)}, caps, &over), ElementsAre("message|1"));
    EXPECT_EQ(over, "a line over 10 bytes");
  }
}

TEST(SseParser, CapsTheEvent) {
  const SseCaps caps{.line_bytes = 10, .event_bytes = 7};
  std::string over;
  EXPECT_THAT(Events({"data:123\ndata:456\n\n"}, caps, &over), ElementsAre("message|123\n456"));
  EXPECT_EQ(over, "");
  EXPECT_THAT(Events({"data:1\n\ndata:123\ndata:4567\n\ndata:2\n\n"}, caps, &over),
              ElementsAre("message|1"));
  EXPECT_EQ(over, "an event over 7 bytes");
}

TEST(SseParser, TakesNoBytesAfterACapUntilReset) {
  std::vector<std::string> events;
  SseParser parser([&](const SseEvent& event) { events.emplace_back(event.data); },
                   {.line_bytes = 8, .event_bytes = 8});
  EXPECT_FALSE(parser.Feed("event: error\n", kStart));
  EXPECT_FALSE(parser.Feed("\ndata: a\n\n", kStart));
  EXPECT_THAT(events, IsEmpty());
  parser.Reset();
  EXPECT_TRUE(parser.Feed("data: a\n\n", kStart));
  EXPECT_THAT(events, ElementsAre("a"));
}

TEST(SseParser, ResetForgetsTheLastResponse) {
  std::vector<std::string> events;
  SseParser parser([&](const SseEvent& event) {
    events.push_back(std::string(event.type) + "|" + std::string(event.data));
  });
  parser.Feed("event: error\ndata: a\ndata: b\r", kStart);
  parser.Reset();
  parser.Feed("\xef\xbb\xbf", kStart);
  parser.Feed("data: c\n\n", kStart);
  EXPECT_THAT(events, ElementsAre("message|c"));
}

}  // namespace
}  // namespace upgrade_gate::load
