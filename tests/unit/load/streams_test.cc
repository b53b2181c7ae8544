// Every fault of a /v1/completions stream that users met in the field, held
// against the verdict it must get: whole, at every split in two, byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "framework/load/acceptance.h"
#include "framework/load/response_reader.h"

namespace upgrade_gate::load {
namespace {

using evidence::FailureKind;
using ::testing::HasSubstr;

constexpr base::Instant kStart{std::chrono::seconds(1)};
constexpr Expectation kAsked{.input_tokens = 8, .output_tokens = 4};

const std::string kUsage = R"("usage":{"prompt_tokens":8,"completion_tokens":4})";
const std::string kDone = "data: [DONE]\n\n";

std::string Data(const std::string& json) {
  return "data: " + json + "\n\n";
}
std::string Text(const std::string& text, const std::string& reason = "null") {
  return Data(R"({"choices":[{"text":")" + text + R"(","finish_reason":)" + reason + "}]}");
}
std::string UsageOnly(const std::string& usage = kUsage) {
  return Data("{\"choices\":[]," + usage + "}");
}
const std::string kGood = Text("ab") + Text("cd", R"("length")");
const std::string kGoodEnd = UsageOnly() + kDone;

struct Stream {
  std::string name;
  std::string body;
  std::optional<FailureKind> expected;  // absent: accepted
  std::string detail = "";              // a part of the failure's detail
  int notes = 0;
  int status = 200;
  std::string content_type = "text/event-stream; charset=utf-8";
  EndKind end = EndKind::kComplete;
};

std::vector<Stream> Streams() {
  return {
      {"plain", kGood + kGoodEnd, {}},
      {"text always empty",
       Text("") + Text("") + Text("", R"("length")") +
           UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":128})") + kDone,
       FailureKind::kEmptyOutput, "asked for 4 output tokens, usage says 128 output tokens"},
      {"text empty and no reason either", Text("") + kGoodEnd, FailureKind::kEmptyOutput,
       "no finish_reason"},
      {"text absent or null",
       Data(R"({"choices":[{"index":0}]})") +
           Data(R"({"choices":[{"text":null,"finish_reason":"stop"}]})") + kGoodEnd,
       FailureKind::kEmptyOutput},
      {"stop first and only", Text("", R"("stop")") + kGoodEnd, FailureKind::kEmptyOutput,
       R"(finish_reason "stop")"},
      {"error object, then [DONE]", Data(R"({"error":{"message":"x"}})") + kDone,
       FailureKind::kInBandError, R"({"message":"x"})"},
      {"error object after good text", kGood + Data(R"({"error":{"message":"x"}})") + kGoodEnd,
       FailureKind::kInBandError, "4 bytes of text"},
      {"error as a string", Data(R"({"error":"boom"})"), FailureKind::kInBandError, "boom"},
      {"error in the older form", Data(R"({"object":"error","message":"x","code":400})") + kDone,
       FailureKind::kInBandError, R"("code":400)"},
      {"error beside choices",
       Data(R"({"choices":[{"text":"a"}],"error":{"code":1}})") + kGood + kGoodEnd,
       FailureKind::kInBandError},
      {"error null is no error", Data(R"({"choices":[],"error":null})") + kGood + kGoodEnd, {}},
      {"error object, then a cut", Data(R"({"error":{"message":"engine dead"}})"),
       FailureKind::kInBandError, "engine dead", 0, 200, "text/event-stream", EndKind::kBroken},
      {"error as a field", "error: {\"code\":400}\n\n", FailureKind::kNoEvents,
       "a body without a valid event"},
      {"event: error", kGood + "event: error\ndata: {\"code\":400}\n\n" + kGoodEnd,
       FailureKind::kInBandError, R"({"code":400})"},
      {"empty body", "", FailureKind::kNoEvents, "an empty body"},
      {"only [DONE]", kDone, FailureKind::kNoEvents, "nothing but [DONE]"},
      {"only comments", ": ping\n\n: ping\n\n", FailureKind::kNoEvents},
      {"no [DONE]", kGood + UsageOnly(), FailureKind::kMissingDone, R"(finish_reason "length")"},
      {"[DONE] without its blank line", kGood + UsageOnly() + "data: [DONE]\n",
       FailureKind::kMissingDone, "the body ended inside an event: \"[DONE]\""},
      {"[DONE] in the text only", kGood + Text("[DONE]") + UsageOnly(), FailureKind::kMissingDone},
      {"cut in the middle", Text("ab") + "data: {\"choi", FailureKind::kTransport,
       "after 1 events with 2 bytes of text", 0, 200, "text/event-stream", EndKind::kBroken},
      {"cut after [DONE]", kGood + kGoodEnd, FailureKind::kTransport, "after [DONE]", 0, 200,
       "text/event-stream", EndKind::kBroken},
      {"socket stays open",
       kGood + kGoodEnd,
       {},
       "",
       1,
       200,
       "text/event-stream",
       EndKind::kLingered},
      {"data after [DONE]", kGood + kGoodEnd + Text("more"), FailureKind::kAfterDone, "more"},
      {"second [DONE]", kGood + kGoodEnd + kDone, FailureKind::kAfterDone, "\"[DONE]\""},
      {"usage after [DONE]", kGood + kDone + UsageOnly(), FailureKind::kAfterDone},
      {"comment after [DONE]", kGood + kGoodEnd + ": bye\n\n", {}},
      {"reason never given", Text("ab") + kGoodEnd, FailureKind::kNoFinishReason},
      {"reason empty on every chunk", Text("ab", R"("")") + Text("cd", R"("")") + kGoodEnd,
       FailureKind::kNoFinishReason, "", 1},
      {"reason empty, then given",
       Text("ab", R"("")") + Text("cd", R"("length")") + kGoodEnd,
       {},
       "",
       1},
      {"usage first", UsageOnly() + kGood + kDone, {}},
      {"usage in the middle", Text("ab") + UsageOnly() + Text("cd", R"("length")") + kDone, {}},
      {"usage with the text",
       Data(R"({"choices":[{"text":"ab","finish_reason":"length"}],)" + kUsage + "}") + kDone,
       {}},
      {"usage without choices", kGood + Data("{" + kUsage + "}") + kDone, {}},
      {"usage null, then given",
       Data(R"({"choices":[{"text":"ab"}],"usage":null})") + Text("cd", R"("stop")") + kGoodEnd,
       {}},
      {"usage absent", kGood + kDone, FailureKind::kUsageInvalid, "usage: absent"},
      {"usage null", kGood + UsageOnly(R"("usage":null)") + kDone, FailureKind::kUsageInvalid,
       "usage: null"},
      {"usage a number", kGood + UsageOnly(R"("usage":4)") + kDone, FailureKind::kUsageInvalid,
       R"("usage" is 4)"},
      {"usage negative",
       kGood + UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":-1})") + kDone,
       FailureKind::kUsageInvalid, R"("completion_tokens" is -1)"},
      {"usage a string",
       kGood + UsageOnly(R"("usage":{"prompt_tokens":"8","completion_tokens":4})") + kDone,
       FailureKind::kUsageInvalid, R"("prompt_tokens" is "8")"},
      {"usage with null",
       kGood + UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":null})") + kDone,
       FailureKind::kUsageInvalid, R"("completion_tokens" is null)"},
      {"usage with half", kGood + UsageOnly(R"("usage":{"prompt_tokens":8})") + kDone,
       FailureKind::kUsageInvalid, R"("completion_tokens" is absent)"},
      {"usage not whole",
       kGood + UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":4.5})") + kDone,
       FailureKind::kUsageInvalid, R"("completion_tokens" is 4.5)"},
      {"usage over 63 bits",
       kGood +
           UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":18446744073709551612})") +
           kDone,
       FailureKind::kUsageInvalid, "18446744073709551612, out of range"},
      {"usage over 64 bits, 4 modulo 2^64",
       kGood +
           UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":18446744073709551620})") +
           kDone,
       FailureKind::kUsageInvalid, R"("completion_tokens" is 1)"},
      {"usage 4 modulo 2^32",
       kGood + UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":4294967300})") + kDone,
       FailureKind::kOutputLength, "usage says 4294967300"},
      {"usage growing",
       Data(R"({"choices":[{"text":"ab"}],"usage":{"prompt_tokens":8,"completion_tokens":2}})") +
           Text("cd", R"("length")") + kGoodEnd,
       {}},
      {"usage falling",
       Data(R"({"choices":[{"text":"ab"}],"usage":{"prompt_tokens":8,"completion_tokens":5}})") +
           Text("cd", R"("length")") + kGoodEnd,
       FailureKind::kUsageInvalid, R"("completion_tokens" fell from 5 to 4)"},
      {"usage wrong once, right at last",
       UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":-4})") + kGood + kGoodEnd,
       FailureKind::kUsageInvalid, "-4"},
      {"comments, retry and blank blocks",
       ": start\n\nretry: 100\n\n\n\n" + kGood + ": ping\n\n" + kGoodEnd,
       {}},
      {"a proxy's re-wrapped comment", kGood + "data: : WAIT\n\n" + kGoodEnd,
       FailureKind::kMalformedEvent, R"(not JSON: ": WAIT")"},
      {"empty data", kGood + "data:\n\n" + kGoodEnd, FailureKind::kMalformedEvent,
       R"(not JSON: "")"},
      {"half an object", kGood + Data(R"({"choices":[)") + kGoodEnd, FailureKind::kMalformedEvent,
       "not JSON"},
      {"two objects", kGood + Data("{}{}") + kGoodEnd, FailureKind::kMalformedEvent},
      {"an array", kGood + Data("[1]") + kGoodEnd, FailureKind::kMalformedEvent, "not an object"},
      {"no choices", kGood + Data(R"({"id":"x"})") + kGoodEnd, FailureKind::kMalformedEvent,
       R"(no "choices")"},
      {"choices an object", kGood + Data(R"({"choices":{}})") + kGoodEnd,
       FailureKind::kMalformedEvent, R"("choices" is not an array)"},
      {"text a number", kGood + Data(R"({"choices":[{"text":5}]})") + kGoodEnd,
       FailureKind::kMalformedEvent, R"("text" is not a string)"},
      {"reason a number", kGood + Data(R"({"choices":[{"text":"","finish_reason":1}]})") + kGoodEnd,
       FailureKind::kMalformedEvent, R"("finish_reason" is not a string)"},
      {"text twice", kGood + Data(R"({"choices":[{"text":"","text":"a"}]})") + kGoodEnd,
       FailureKind::kMalformedEvent, R"(doubled key "text")"},
      {"bytes that are not UTF-8", Text("a\xff") + kGoodEnd, FailureKind::kMalformedEvent,
       R"(not UTF-8)"},
      {"an empty object, no space", kGood + "data:{}\n\n" + kGoodEnd, {}, "", 1},
      {"only empty objects", "data:{}\n\n" + kDone, FailureKind::kNoEvents, "", 1},
      {"no space", "data:" + kGood.substr(6) + kGoodEnd, {}},
      {"data over two lines",
       "data: {\"choices\":[{\"text\":\"abcd\",\ndata:\"finish_reason\":\"stop\"}]}\n\n" + kGoodEnd,
       {}},
      {"a character over any split",
       Text("\xe4\xbd\xa0\xf0\x9f\x98\x80", R"("length")") + kGoodEnd,
       {}},
      {"U+FFFD, literal and escaped, is noted once",
       Text("a\xef\xbf\xbd") + Text(R"(\ufffd)", R"("length")") + kGoodEnd,
       {},
       "",
       1},
      {"length short",
       kGood + UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":3})") + kDone,
       FailureKind::kOutputLength,
       R"(asked for 4 output tokens, usage says 3, finish_reason "length")"},
      {"length long",
       kGood + UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":5})") + kDone,
       FailureKind::kOutputLength},
      {"another prompt length, and output too",
       kGood + UsageOnly(R"("usage":{"prompt_tokens":9,"completion_tokens":5})") + kDone,
       FailureKind::kInputLength, "sent 8 input tokens, usage says 9"},
      {"503", "overloaded", FailureKind::kHttpStatus, "HTTP 503: overloaded", 0, 503, "text/plain"},
      {"503 with a perfect stream", kGood + kGoodEnd, FailureKind::kHttpStatus, "HTTP 503", 0, 503},
      {"204", "", FailureKind::kHttpStatus, "HTTP 204", 0, 204},
      {"HTML", "<html>", FailureKind::kNotAStream,
       R"(HTTP 200 with content type "text/html": <html>)", 0, 200, "text/html"},
      {"JSON", R"({"choices":[]})", FailureKind::kNotAStream, "", 0, 200, "application/json"},
      {"a type that only begins like it", kGood + kGoodEnd, FailureKind::kNotAStream, "", 0, 200,
       "text/event-streams"},
      {"no type", kGood + kGoodEnd, FailureKind::kNotAStream, "without a content type", 0, 200, ""},
      {"type in capitals", kGood + kGoodEnd, {}, "", 0, 200, "Text/Event-Stream ;charset=utf-8"},
      {"stalled", Text("ab"), FailureKind::kStalled, "after 1 events", 0, 200, "text/event-stream",
       EndKind::kStalled},
      {"deadline", Text("ab"), FailureKind::kDeadline, "", 0, 200, "text/event-stream",
       EndKind::kDeadline},
      {"cancelled", Text("ab"), FailureKind::kTransport, "cancelled", 0, 200, "text/event-stream",
       EndKind::kCancelled},
  };
}

struct Outcome {
  Observation seen;
  std::optional<evidence::Failure> failure;
};

Outcome ReadStream(const Stream& stream, const std::vector<std::string_view>& pieces) {
  ResponseReader reader;
  reader.OnHeaders(stream.status, stream.content_type, "");
  for (const std::string_view piece : pieces) EXPECT_TRUE(reader.OnBody(piece, kStart));
  reader.OnEnd(stream.end, "", kStart);
  EXPECT_EQ(reader.raw(), stream.body);
  return {reader.observation(), Judge(kAsked, reader.observation())};
}

std::string Print(const Outcome& outcome) {
  const Observation& seen = outcome.seen;
  std::string text = outcome.failure ? std::string(evidence::Name(outcome.failure->kind)) + ": " +
                                           outcome.failure->detail
                                     : "accepted";
  text += " events=" + std::to_string(seen.events) + " chunks=" + std::to_string(seen.chunks) +
          " bytes=" + std::to_string(seen.text_bytes) +
          " stamps=" + std::to_string(seen.first_byte.has_value()) +
          std::to_string(seen.first_text.has_value()) +
          std::to_string(seen.last_token.has_value()) + std::to_string(seen.done.has_value());
  for (const std::string& note : seen.notes) text += " note=" + note;
  return text;
}

TEST(Streams, GetTheirVerdictAtEverySplit) {
  for (const Stream& stream : Streams()) {
    SCOPED_TRACE(stream.name);
    const std::string_view body = stream.body;
    const Outcome whole = ReadStream(stream, {body});
    if (stream.expected) {
      ASSERT_TRUE(whole.failure.has_value());
      EXPECT_EQ(evidence::Name(whole.failure->kind), evidence::Name(*stream.expected));
      EXPECT_THAT(whole.failure->detail, HasSubstr(stream.detail));
    } else {
      EXPECT_EQ(whole.failure ? whole.failure->detail : "", "");
    }
    EXPECT_EQ(whole.seen.notes.size(), static_cast<std::size_t>(stream.notes)) << Print(whole);
    // A request without text has no latency, whatever else it has.
    EXPECT_EQ(whole.seen.first_text.has_value(), whole.seen.text_bytes > 0);

    std::vector<std::string_view> single;
    for (std::size_t i = 0; i < body.size(); ++i) {
      EXPECT_EQ(Print(ReadStream(stream, {body.substr(0, i), body.substr(i)})), Print(whole))
          << "split at byte " << i;
      single.push_back(body.substr(i, 1));
    }
    EXPECT_EQ(Print(ReadStream(stream, single)), Print(whole)) << "byte by byte";
  }
}

TEST(Streams, ALongDataLineIsLegalUpToTheCap) {
  const std::string body = Text(std::string(200 << 10, 'x'), R"("length")") + kGoodEnd;
  const Outcome outcome = ReadStream({"long", body, {}}, {body});
  EXPECT_FALSE(outcome.failure);
  EXPECT_EQ(outcome.seen.text_bytes, 200 << 10);
}

TEST(Streams, OverACapIsOursAndNamesTheCap) {
  ResponseReader reader;
  reader.OnHeaders(200, "text/event-stream", "");
  EXPECT_FALSE(reader.OnBody("data: " + std::string((1 << 20) + 1, 'x'), kStart));
  EXPECT_FALSE(reader.OnBody("\n\n" + kGood, kStart));
  reader.OnEnd(EndKind::kOverCap, "", kStart);
  const auto failure = Judge(kAsked, reader.observation());
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, FailureKind::kOverCap);
  EXPECT_THAT(failure->detail, HasSubstr("a line over 1048576 bytes"));
}

}  // namespace
}  // namespace upgrade_gate::load
