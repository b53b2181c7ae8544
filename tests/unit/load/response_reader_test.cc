#include "framework/load/response_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

namespace upgrade_gate::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

base::Instant At(int ms) {
  return base::Instant{} + std::chrono::milliseconds(ms);
}

ResponseReader Streaming(ReaderCaps caps = {}) {
  ResponseReader reader(caps);
  reader.OnHeaders(200, "text/event-stream", "");
  return reader;
}

std::string Text(const std::string& text) {
  return "data: {\"choices\":[{\"text\":\"" + text + "\"}]}\n\n";
}

TEST(ResponseReader, StampsTextNotChunks) {
  ResponseReader reader = Streaming();
  reader.OnBody(": ping\n\n", At(1));
  reader.OnBody("data: {\"choices\":[{\"text\":\"\"}]}\n\n", At(2));
  reader.OnBody("data: {\"choices\":[]}\n\n", At(3));
  reader.OnBody(Text("a"), At(4));
  reader.OnBody(Text("b"), At(5));
  reader.OnBody("data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n", At(6));
  reader.OnBody("data: [DONE]\n\n", At(7));
  reader.OnEnd(EndKind::kComplete, "", At(8));
  const Observation& seen = reader.observation();
  EXPECT_EQ(seen.first_byte, At(1));
  EXPECT_EQ(seen.first_token, At(4));
  EXPECT_EQ(seen.first_text, At(4));
  EXPECT_EQ(seen.last_token, At(5));
  EXPECT_EQ(seen.done, At(7));
  EXPECT_EQ(seen.closed, At(8));
  EXPECT_EQ(seen.events, 5);
  EXPECT_EQ(seen.chunks, 2);
  EXPECT_EQ(seen.text_bytes, 2);
  EXPECT_EQ(seen.finish_reason, "stop");
}

TEST(ResponseReader, StampsWithTheReadThatCompletedTheEvent) {
  ResponseReader reader = Streaming();
  const std::string event = Text("a");
  reader.OnBody(event.substr(0, event.size() - 1), At(1));
  EXPECT_FALSE(reader.observation().first_text);
  reader.OnBody("\n", At(2));
  EXPECT_EQ(reader.observation().first_text, At(2));
  EXPECT_EQ(reader.observation().first_byte, At(1));
}

TEST(ResponseReader, CountsTheTextOfAllChoicesInBytes) {
  ResponseReader reader = Streaming();
  reader.OnBody(R"(data: {"choices":[{"text":"a\n"},{"text":""},{"text":"é"}]})"
                "\n\n",
                At(1));
  EXPECT_EQ(reader.observation().text_bytes, 4);
  EXPECT_EQ(reader.observation().chunks, 1);
}

TEST(ResponseReader, KnowsTheMomentOfDone) {
  ResponseReader reader = Streaming();
  reader.OnBody("data: [DONE]\n", At(1));
  EXPECT_FALSE(reader.done_seen());
  reader.OnBody("\n", At(2));
  EXPECT_TRUE(reader.done_seen());
}

TEST(ResponseReader, KeepsRawBytesUpToTheCapAndReadsOn) {
  ResponseReader reader = Streaming({.raw_bytes = 10});
  const std::string body = Text("a") + "data: [DONE]\n\n";
  EXPECT_TRUE(reader.OnBody(body.substr(0, 7), At(1)));
  EXPECT_TRUE(reader.OnBody(body.substr(7), At(2)));
  EXPECT_EQ(*reader.raw().Read(), body.substr(0, 10));
  EXPECT_TRUE(reader.done_seen());
}

TEST(ResponseReader, ABodyMayBeAsLongAsItsCapAndNoLonger) {
  const std::string body = Text("a");
  for (std::size_t split = 0; split <= body.size(); ++split) {
    ResponseReader fits = Streaming({.body_bytes = body.size()});
    EXPECT_TRUE(fits.OnBody(body.substr(0, split), At(1)));
    EXPECT_TRUE(fits.OnBody(body.substr(split), At(1)));
    EXPECT_EQ(fits.observation().events, 1);

    ResponseReader longer = Streaming({.body_bytes = body.size() - 1});
    longer.OnBody(body.substr(0, split), At(1));
    EXPECT_FALSE(longer.OnBody(body.substr(split), At(1)) && longer.OnBody(":", At(1)));
    longer.OnEnd(EndKind::kOverCap, "", At(2));
    EXPECT_EQ(longer.observation().events, 0);
    EXPECT_EQ(longer.observation().end_detail,
              "a body over " + std::to_string(body.size() - 1) + " bytes");
  }
}

TEST(ResponseReader, TheBodyCapHoldsForWhatIsNotAStreamToo) {
  ResponseReader reader({.body_bytes = 10});
  reader.OnHeaders(500, "text/plain", "");
  EXPECT_TRUE(reader.OnBody("0123456789", At(1)));
  EXPECT_FALSE(reader.OnBody("0", At(1)));
}

TEST(ResponseReader, KeepsTheHeadOfABodyThatIsNoStream) {
  ResponseReader reader;
  reader.OnHeaders(429, "text/html", "120");
  reader.OnBody("<b>slow\x1b[31m", At(1));
  reader.OnBody(" down</b>" + std::string(1000, '!'), At(1));
  reader.OnEnd(EndKind::kComplete, "", At(2));
  EXPECT_THAT(reader.observation().body_head, HasSubstr("<b>slow\\x1b[31m down</b>!"));
  EXPECT_LE(reader.observation().body_head.size(), 400u);
  EXPECT_EQ(reader.observation().retry_after, "120");
  EXPECT_EQ(reader.observation().events, 0);
}

TEST(ResponseReader, ShowsHostileTextVisiblyAndShort) {
  ResponseReader reader = Streaming();
  reader.OnBody("data: \x1b]0;owned\x07" + std::string(100000, 'x') + "\n\n", At(1));
  reader.OnBody("event: error\ndata: \xe2\x80\xae" + std::string(100000, 'y') + "\n\n", At(1));
  reader.OnEnd(EndKind::kComplete, "bad\x01", At(2));
  EXPECT_THAT(reader.observation().malformed, HasSubstr("\\x1b]0;owned\\x07xxx"));
  EXPECT_LT(reader.observation().malformed.size(), 300u);
  EXPECT_THAT(reader.observation().in_band_error, HasSubstr("\\u202eyyy"));
  EXPECT_LT(reader.observation().in_band_error.size(), 300u);
  EXPECT_EQ(reader.observation().end_detail, "bad\\x01");
}

TEST(ResponseReader, ReportsTheFirstFaultOfAKind) {
  ResponseReader reader = Streaming();
  reader.OnBody("data: first\n\ndata: second\n\n", At(1));
  reader.OnBody("data: {\"error\":\"third\"}\n\ndata: {\"error\":\"fourth\"}\n\n", At(1));
  EXPECT_THAT(reader.observation().malformed, HasSubstr("first"));
  EXPECT_THAT(reader.observation().in_band_error, HasSubstr("third"));
}

TEST(ResponseReader, NotesASocketThatStaysOpen) {
  ResponseReader reader = Streaming();
  reader.OnBody("data: [DONE]\n\n", At(1));
  reader.OnEnd(EndKind::kLingered, "closed after 250 ms", At(251));
  EXPECT_THAT(reader.observation().notes,
              ElementsAre("the socket stayed open after [DONE]: closed after 250 ms"));
}

TEST(ResponseReader, NotesAnEventCutOffAfterDone) {
  ResponseReader reader = Streaming();
  reader.OnBody("data: [DONE]\n\ndata: x", At(1));
  reader.OnEnd(EndKind::kComplete, "", At(2));
  EXPECT_THAT(reader.observation().notes,
              ElementsAre("the body ended inside an event after [DONE]: \"data: x\""));
}

TEST(ResponseReader, DeepNestingIsOverACapOfOurs) {
  const auto nested = [](std::size_t depth) {
    return "data: {\"choices\":[],\"x\":" + std::string(depth, '[') + std::string(depth, ']') +
           "}\n\n";
  };
  ResponseReader reader = Streaming();
  EXPECT_TRUE(reader.OnBody(nested(60), At(1)));
  EXPECT_EQ(reader.observation().events, 1);
  // What follows in the same read is not read any more.
  EXPECT_FALSE(reader.OnBody(nested(64) + nested(1), At(1)));
  reader.OnEnd(EndKind::kOverCap, "", At(1));
  EXPECT_EQ(reader.observation().events, 1);
  EXPECT_EQ(reader.observation().end_detail, "JSON nested over 64 levels");
  for (const std::size_t bomb : {std::size_t{2000}, std::size_t{1} << 20}) {
    ResponseReader other = Streaming({.sse = {.line_bytes = 4 << 20}});
    EXPECT_FALSE(other.OnBody(nested(bomb), At(1)));
    EXPECT_FALSE(other.OnBody("data: " + std::string(bomb, '[') + "\n\n", At(1)));
  }
}

TEST(ResponseReader, ResetForgetsEverything) {
  ResponseReader reader({.body_bytes = 400});
  reader.OnHeaders(503, "text/html", "1");
  reader.OnBody(std::string(401, 'x'), At(1));
  reader.OnEnd(EndKind::kOverCap, "", At(1));
  reader.Reset();
  reader.OnHeaders(200, "text/event-stream", "");
  reader.OnBody(
      Text("\xef\xbf\xbd") + "data: {\"choices\":[],\"usage\":null}\n\ndata: bad\n\ndata: x",
      At(2));
  reader.OnEnd(EndKind::kComplete, "", At(2));
  EXPECT_EQ(reader.observation().notes.size(), 1u);
  reader.Reset();
  reader.OnHeaders(200, "text/event-stream", "");
  EXPECT_TRUE(reader.OnBody("\n\n" + Text("\xef\xbf\xbd"), At(3)));
  reader.OnEnd(EndKind::kComplete, "", At(4));
  const Observation& seen = reader.observation();
  EXPECT_EQ(seen.notes.size(), 1u);
  EXPECT_EQ(seen.malformed, "");
  EXPECT_EQ(seen.usage_problem, "absent");
  EXPECT_EQ(seen.first_byte, At(3));
  EXPECT_FALSE(seen.retry_after);
  EXPECT_EQ(*reader.raw().Read(), "\n\n" + Text("\xef\xbf\xbd"));
}

TEST(ResponseReader, MayBeMoved) {
  ResponseReader reader = Streaming();
  reader.OnBody("data: {\"choices\":[{\"te", At(1));
  ResponseReader moved = std::move(reader);
  moved.OnBody("xt\":\"ab\"}]}\n\n", At(2));
  EXPECT_EQ(moved.observation().text_bytes, 2);
  EXPECT_THAT(moved.observation().notes, IsEmpty());
}

}  // namespace
}  // namespace upgrade_gate::load
