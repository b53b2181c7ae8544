// Every fault of a response that users met in the field, and its kin, held
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

using namespace std::string_literals;
using evidence::FailureKind;
using ::testing::HasSubstr;

constexpr base::Instant kStart{std::chrono::seconds(1)};
const Expectation kAsked{.input_tokens = 8, .output_tokens = 4};

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
std::string Replaced(const std::string& text, const std::string& line_end) {
  std::string out;
  for (const char c : text) out += c == '\n' ? line_end : std::string(1, c);
  return out;
}
std::string Crlf(const std::string& text) {
  return Replaced(text, "\r\n");
}
std::string Cr(const std::string& text) {
  return Replaced(text, "\r");
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
  Expectation asked = kAsked;
};

Expectation Asked(plan::Api api, bool stream, int choices = 1) {
  Expectation asked = kAsked;
  asked.form = {.api = api, .stream = stream, .choices = choices};
  return asked;
}

Expectation Lenient() {
  Expectation asked = kAsked;
  asked.profile = plan::Acceptance::kLenient;
  return asked;
}
Expectation Natural(std::int64_t most) {
  Expectation asked = kAsked;
  asked.output_tokens = most;
  asked.stop = plan::OutputStop::kNatural;
  return asked;
}
Expectation MayBeEmpty() {
  Expectation asked = kAsked;
  asked.allow_empty_output = true;
  return asked;
}

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
      {"error in a choice",
       Data(R"({"choices":[{"text":"","error":{"message":"oom"}}]})") + kGoodEnd,
       FailureKind::kInBandError, "oom"},
      {"error as finish_reason", Text("ab", R"("error")") + kGoodEnd, FailureKind::kInBandError,
       R"(finish_reason "error")"},
      {"abort as finish_reason", kGood + Text("", R"("abort")") + kGoodEnd,
       FailureKind::kInBandError, R"(finish_reason "abort")"},
      {"error empty", Data(R"({"error":{}})") + kGood + kGoodEnd, FailureKind::kInBandError},
      {"error false", Data(R"({"error":false})") + kGood + kGoodEnd, FailureKind::kInBandError},
      {"error first, then a perfect stream", Data(R"({"error":"x"})") + kGood + kGoodEnd,
       FailureKind::kInBandError},
      {"a refusal in FastAPI's words", Data(R"({"detail":"Internal Server Error"})") + kDone,
       FailureKind::kMalformedEvent, "Internal Server Error"},
      {"error beside usage",
       kGood + Data(R"({"choices":[],"error":"late",)" + kUsage + "}") + kDone,
       FailureKind::kInBandError, "late"},
      {"error after [DONE]", kGood + kGoodEnd + Data(R"({"error":"late"})"),
       FailureKind::kAfterDone, "late"},
      {"event: error after [DONE]", kGood + kGoodEnd + "event: error\ndata: x\n\n",
       FailureKind::kAfterDone},
      {"event: error without data", kGood + "event: error\n\n" + kGoodEnd, {}},
      {"event: error whose data is [DONE]", kGood + UsageOnly() + "event: error\n" + kDone,
       FailureKind::kInBandError, "[DONE]"},
      {"event: done", kGood + UsageOnly() + "event: done\n" + kDone, {}},
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
      {"[DONE] in the text only", Text("[DONE]") + kGood + UsageOnly(), FailureKind::kMissingDone},
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
      {"[DONE] between spaces", kGood + UsageOnly() + "data:  [DONE] \n\n",
       FailureKind::kMalformedEvent, R"(white space around the terminator: " [DONE] ")"},
      {"[DONE] between spaces, lenient",
       kGood + UsageOnly() + "data:  [DONE] \n\n",
       {},
       "",
       1,
       200,
       "text/event-stream",
       EndKind::kComplete,
       Lenient()},
      {"[DONE] on its second line", kGood + UsageOnly() + "data:\ndata: [DONE]\n\n",
       FailureKind::kMalformedEvent, "white space around the terminator"},
      {"[done]", kGood + UsageOnly() + "data: [done]\n\n", FailureKind::kMalformedEvent, "[done]"},
      {"[DONE] with a NUL", kGood + UsageOnly() + "data: [DONE]"s + "\0\n\n"s,
       FailureKind::kMalformedEvent},
      {"[DONE] as a string", kGood + UsageOnly() + "data: \"[DONE]\"\n\n",
       FailureKind::kMalformedEvent, "not an object"},
      {"[DONE] as a comment", kGood + UsageOnly() + ": [DONE]\n\n", FailureKind::kMissingDone},
      {"[DONE] as another field", kGood + UsageOnly() + "done: [DONE]\n\n",
       FailureKind::kMissingDone},
      {"[DONE] first", kDone + kGood + UsageOnly(), FailureKind::kNoEvents},
      {"[DONE] without a space", kGood + UsageOnly() + "data:[DONE]\n\n", {}},
      {"text after its reason", kGood + Text("late") + kGoodEnd, {}, "", 1},
      {"comment after [DONE]", kGood + kGoodEnd + ": bye\n\n", {}},
      {"reason never given", Text("ab") + kGoodEnd, FailureKind::kNoFinishReason},
      {"reason empty on every chunk", Text("ab", R"("")") + Text("cd", R"("")") + kGoodEnd,
       FailureKind::kNoFinishReason, "", 1},
      {"reason never given, lenient",
       Text("ab") + kGoodEnd,
       {},
       "",
       1,
       200,
       "text/event-stream",
       EndKind::kComplete,
       Lenient()},
      {"reason empty on every chunk, lenient",
       Text("ab", R"("")") + Text("cd", R"("")") + kGoodEnd,
       {},
       "",
       2,
       200,
       "text/event-stream",
       EndKind::kComplete,
       Lenient()},
      {"no [DONE], lenient", kGood + UsageOnly(), FailureKind::kMissingDone, "", 0, 200,
       "text/event-stream", EndKind::kComplete, Lenient()},
      {"text always empty, lenient", Text("", R"("length")") + kGoodEnd, FailureKind::kEmptyOutput,
       "", 0, 200, "text/event-stream", EndKind::kComplete, Lenient()},
      {"43 of 128, to its own end",
       Text("ab") + Text("cd", R"("stop")") + kGoodEnd,
       {},
       "",
       0,
       200,
       "text/event-stream",
       EndKind::kComplete,
       Natural(128)},
      {"stop first and only, where the case allows it",
       Text("", R"("stop")") + kGoodEnd,
       {},
       "",
       0,
       200,
       "text/event-stream",
       EndKind::kComplete,
       MayBeEmpty()},
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
       FailureKind::kUsageInvalid, R"("completion_tokens" is 4294967300, out of range)"},
      {"usage 1e400",
       kGood + UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":1e400})") + kDone,
       FailureKind::kMalformedEvent, "not JSON"},
      {"usage 4.0",
       kGood + UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":4.0})") + kDone,
       FailureKind::kUsageInvalid, R"("completion_tokens" is 4)"},
      {"usage the text of an object", kGood + UsageOnly(R"("usage":"{}")") + kDone,
       FailureKind::kUsageInvalid, R"("usage" is "{}")"},
      {"usage a list", kGood + UsageOnly(R"("usage":[8,4])") + kDone, FailureKind::kUsageInvalid,
       R"("usage" is [8,4])"},
      {"usage true", kGood + UsageOnly(R"("usage":true)") + kDone, FailureKind::kUsageInvalid},
      {"usage empty", kGood + UsageOnly(R"("usage":{})") + kDone, FailureKind::kUsageInvalid,
       R"("prompt_tokens" is absent)"},
      {"prompt tokens negative",
       kGood + UsageOnly(R"("usage":{"prompt_tokens":-8,"completion_tokens":4})") + kDone,
       FailureKind::kUsageInvalid, R"("prompt_tokens" is -8)"},
      {"a count twice",
       kGood +
           UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":4,"completion_tokens":4})") +
           kDone,
       FailureKind::kUsageInvalid, R"("completion_tokens" is there twice)"},
      {"usage twice in one event", kGood + Data("{" + kUsage + "," + kUsage + "}") + kDone,
       FailureKind::kMalformedEvent, R"(doubled key "usage")"},
      {"usage null after it was given",
       kGood + UsageOnly() + Data(R"({"choices":[],"usage":null})") + kDone,
       {}},
      {"prompt tokens falling",
       UsageOnly(R"("usage":{"prompt_tokens":9,"completion_tokens":0})") + kGood + kGoodEnd,
       FailureKind::kUsageInvalid, R"("prompt_tokens" fell from 9 to 8)"},
      {"text and usage of no tokens",
       kGood + UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":0})") + kDone,
       FailureKind::kOutputLength, "usage says 0"},
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
      {"null", kGood + Data("null") + kGoodEnd, FailureKind::kMalformedEvent, "not an object"},
      {"a number", kGood + Data("1") + kGoodEnd, FailureKind::kMalformedEvent, "not an object"},
      {"choices null", kGood + Data(R"({"choices":null})") + kGoodEnd, FailureKind::kMalformedEvent,
       R"(no "choices")"},
      {"a choice null", kGood + Data(R"({"choices":[null]})") + kGoodEnd,
       FailureKind::kMalformedEvent, "a choice is not an object"},
      {"choices twice", kGood + Data(R"({"choices":[],"choices":[]})") + kGoodEnd,
       FailureKind::kMalformedEvent, R"(doubled key "choices")"},
      {"a choice too many", kGood + Data(R"({"choices":[{"index":1,"text":"x"}]})") + kGoodEnd,
       FailureKind::kMalformedEvent, R"("index" is 1; 1 choice was asked for)"},
      {"a choice before the first",
       kGood + Data(R"({"choices":[{"index":-1,"text":"x"}]})") + kGoodEnd,
       FailureKind::kMalformedEvent, R"("index" is -1)"},
      {"an index that is text",
       kGood + Data(R"({"choices":[{"index":"0","text":"x"}]})") + kGoodEnd,
       FailureKind::kMalformedEvent},
      {"a NUL in the data", kGood + "data: {\"choices\":[]}"s + "\0\n\n"s + kGoodEnd,
       FailureKind::kMalformedEvent, "not JSON"},
      {"a NUL escaped in the text", Text(R"(\u0000)", R"("length")") + kGoodEnd, {}},
      {"half a surrogate", Text(R"(\ud800)", R"("length")") + kGoodEnd,
       FailureKind::kMalformedEvent},
      {"a key that is not UTF-8", kGood + Data("{\"choices\":[],\"\xff\":1}") + kGoodEnd,
       FailureKind::kMalformedEvent, "not UTF-8"},
      {"a byte order mark before all", "\xef\xbb\xbf" + kGood + kGoodEnd, {}},
      {"a byte order mark in the data", "data: \xef\xbb\xbf{}\n\n" + kGood + kGoodEnd,
       FailureKind::kMalformedEvent},
      {"CRLF", Crlf(kGood + kGoodEnd), {}},
      {"CR", Cr(kGood + kGoodEnd), {}},
      {"a colon-less field", "data\n\n" + kGood + kGoodEnd, FailureKind::kMalformedEvent},
      {"an id with NUL and unknown fields",
       "id: \0\nfoo: bar\nretry: x\n\n"s + kGood + kGoodEnd,
       {}},
      {"logprobs",
       Data(
           R"({"choices":[{"index":0,"text":"ab","logprobs":{"tokens":["ab"],"token_logprobs":[-0.1],)"
           R"("top_logprobs":[{"ab":-0.1}]},"finish_reason":"length"}]})") +
           kGoodEnd,
       {}},
      {"token ids",
       Data(R"({"prompt_token_ids":[1],"choices":[{"text":"ab","token_ids":[1,2]}]})") +
           Data(R"({"choices":[{"text":"cd","token_ids":[3,4],"finish_reason":"length"}]})") +
           kGoodEnd,
       {}},
      {"token ids of another number",
       Data(R"({"choices":[{"text":"ab","token_ids":[1,2],"finish_reason":"length"}]})") + kGoodEnd,
       {},
       "",
       1},
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
      {"a list of types", kGood + kGoodEnd, FailureKind::kNotAStream, "", 0, 200,
       "application/json, text/event-stream"},
      {"plain text", kGood + kGoodEnd, FailureKind::kNotAStream, "", 0, 200,
       "text/plain; charset=utf-8"},
      {"JSON with a charset", "{}", FailureKind::kNotAStream, "", 0, 200,
       "application/json; charset=utf-8"},
      {"type in capitals", kGood + kGoodEnd, {}, "", 0, 200, "Text/Event-Stream ;charset=utf-8"},
      {"stalled", Text("ab"), FailureKind::kStalled, "after 1 events", 0, 200, "text/event-stream",
       EndKind::kStalled},
      {"deadline", Text("ab"), FailureKind::kDeadline, "", 0, 200, "text/event-stream",
       EndKind::kDeadline},
      {"cancelled", Text("ab"), FailureKind::kTransport, "cancelled", 0, 200, "text/event-stream",
       EndKind::kCancelled},
  };
}

std::string Delta(const std::string& delta, const std::string& reason = "null") {
  return Data(R"({"object":"chat.completion.chunk","choices":[{"index":0,"delta":{)" + delta +
              R"(},"finish_reason":)" + reason + "}]}");
}
std::string Call(const std::string& call) {
  return Delta(R"("tool_calls":[{)" + call + "}]");
}

std::vector<Stream> ChatStreams() {
  const std::string role = Delta(R"("role":"assistant","content":"")");
  const std::string text = Delta(R"("content":"ab")");
  const std::string last = Delta("", R"("stop")") + kGoodEnd;
  const std::string first_call =
      Call(R"("index":0,"id":"a","type":"function","function":{"name":"f","arguments":""})");
  const std::string argument = Call(R"("index":0,"function":{"arguments":"{\"x\":"})") +
                               Call(R"("index":0,"function":{"arguments":"1}"})");
  std::vector<Stream> streams = {
      {"plain", role + text + last, {}},
      {"role only, content null, delta empty",
       Delta(R"("role":"assistant")") + Delta(R"("content":null)") + Delta("") + text + last,
       {}},
      {"text in the chunk that has the reason",
       role + Delta(R"("content":"abcd")", R"("length")") + kGoodEnd,
       {}},
      {"text always empty", role + Delta(R"("content":"")") + last, FailureKind::kEmptyOutput},
      {"nothing but a reason", Delta("", R"("stop")") + kGoodEnd, FailureKind::kEmptyOutput},
      {"the other interface's field", Text("abcd", R"("length")") + kGoodEnd,
       FailureKind::kEmptyOutput},
      {"a whole message in a stream",
       Data(R"({"choices":[{"index":0,"message":{"content":"ab"},"finish_reason":"stop"}]})") +
           kGoodEnd,
       FailureKind::kEmptyOutput},
      {"delta absent", role + text + Data(R"({"choices":[{"index":0}]})") + last, {}},
      {"delta null", role + text + Data(R"({"choices":[{"index":0,"delta":null}]})") + last, {}},
      {"delta a list", text + Data(R"({"choices":[{"index":0,"delta":[]}]})") + last,
       FailureKind::kMalformedEvent, R"("delta" is not an object)"},
      {"content a list", Delta(R"("content":[{"type":"text","text":"x"}])") + last,
       FailureKind::kMalformedEvent, R"("content" is not a string)"},
      {"content twice", Delta(R"("content":"a","content":"b")") + last,
       FailureKind::kMalformedEvent, R"(doubled key "content")"},
      {"reasoning_content", role + Delta(R"("reasoning_content":"hm")") + text + last, {}},
      {"reasoning", role + Delta(R"("reasoning":"hm")") + text + last, {}},
      {"nothing but reasoning", Delta(R"("reasoning":"hm","content":null)") + last, {}},
      {"reasoning under both names",
       Delta(R"("reasoning":"hm","reasoning_content":"hm")") + text + last,
       {}},
      {"reasoning under both names, differing",
       Delta(R"("reasoning":"hm","reasoning_content":"mh")") + text + last,
       {},
       "",
       1},
      {"reasoning empty only", Delta(R"("reasoning":"","reasoning_content":null)") + last,
       FailureKind::kEmptyOutput},
      {"reasoning a list", Delta(R"("reasoning":["hm"])") + text + last,
       FailureKind::kMalformedEvent, R"("reasoning" is not a string)"},
      {"U+FFFD in the reasoning", Delta("\"reasoning\":\"\xef\xbf\xbd\"") + text + last, {}, "", 1},
      {"a tool call", role + first_call + argument + last, {}},
      {"two tool calls, in turns",
       Call(R"("index":0,"id":"a","function":{"name":"f","arguments":"{"})") +
           Call(R"("index":1,"id":"b","function":{"name":"g","arguments":"{}"})") +
           Call(R"("index":0,"function":{"arguments":"}"})") + last,
       {}},
      {"a call's id again in each piece",
       Call(R"("index":0,"id":"a","function":{"name":"f","arguments":"{"})") +
           Call(R"("index":0,"id":"a","function":{"name":"f","arguments":"}"})") + last,
       {}},
      {"a call's id null or empty later",
       Call(R"("index":0,"id":"a","function":{"name":"f","arguments":"{"})") +
           Call(R"("index":0,"id":null,"function":{"name":"","arguments":"}"})") + last,
       {}},
      {"two ids at index 0",
       Call(R"("index":0,"id":"a","function":{"name":"f","arguments":"{}"})") +
           Call(R"("index":0,"id":"b","function":{"name":"f","arguments":"{}"})") + last,
       FailureKind::kToolCallInvalid, R"(two ids at tool call index 0: "a" and "b")"},
      {"two names at index 0",
       Call(R"("index":0,"id":"a","function":{"name":"f","arguments":"{}"})") +
           Call(R"("index":0,"function":{"name":"g"})") + last,
       FailureKind::kToolCallInvalid, R"(two names at tool call index 0: "f" and "g")"},
      {"arguments cut", first_call + Call(R"("index":0,"function":{"arguments":"{\"x\":"})") + last,
       FailureKind::kToolCallInvalid, R"(arguments "{"x":" are not JSON)"},
      {"arguments twice", first_call + argument + argument + last, FailureKind::kToolCallInvalid,
       "are not JSON"},
      {"arguments a list",
       Call(R"("index":0,"id":"a","function":{"name":"f","arguments":"[]"})") + last,
       FailureKind::kToolCallInvalid, R"(arguments "[]" are not an object)"},
      {"arguments an object, not its text",
       Call(R"("index":0,"id":"a","function":{"name":"f","arguments":{}})") + last,
       FailureKind::kMalformedEvent, R"("arguments" is not a string)"},
      {"no arguments", first_call + last, FailureKind::kToolCallInvalid, "without arguments"},
      {"a call without a name", Call(R"("index":0,"id":"a","function":{"arguments":"{}"})") + last,
       FailureKind::kToolCallInvalid, "tool call 0: has no name"},
      {"a call without an id", Call(R"("index":0,"function":{"name":"f","arguments":"{}"})") + last,
       FailureKind::kToolCallInvalid, R"(tool call 0 "f": has no id)"},
      {"a call without an index",
       Call(R"("id":"a","function":{"name":"f","arguments":"{}"})") + last,
       FailureKind::kToolCallInvalid, R"(whose "index" is absent)"},
      {"a call at index -1", Call(R"("index":-1,"id":"a","function":{"name":"f"})") + last,
       FailureKind::kToolCallInvalid, R"(whose "index" is -1)"},
      {"tool_calls null", role + text + Delta(R"("tool_calls":null)") + last, {}},
      {"tool_calls empty", role + Delta(R"("tool_calls":[])") + last, FailureKind::kEmptyOutput},
      {"tool_calls an object", Delta(R"("tool_calls":{})") + last, FailureKind::kMalformedEvent},
      {"error in a choice",
       Data(R"({"choices":[{"index":0,"delta":{},"error":{"code":500}}]})") + last,
       FailureKind::kInBandError, "500"},
  };
  for (Stream& stream : streams) {
    stream.name = "chat: " + stream.name;
    stream.asked = Asked(plan::Api::kChat, true);
  }
  streams.push_back({"chat: no arguments, lenient", first_call + last, {}, "", 1});
  streams.back().asked = Asked(plan::Api::kChat, true);
  streams.back().asked.profile = plan::Acceptance::kLenient;

  const auto both = [](const std::string& one, const std::string& other) {
    return Data(R"({"choices":[{"index":0,"text":"a","finish_reason":)" + one + "}]}") +
           Data(R"({"choices":[{"index":1,"text":"b","finish_reason":)" + other + "}]}") +
           UsageOnly(R"("usage":{"prompt_tokens":8,"completion_tokens":8})") + kDone;
  };
  for (Stream& stream : std::vector<Stream>{
           {"two choices", both(R"("length")", R"("length")"), {}},
           {"a reason on one choice of two", both("null", R"("length")"),
            FailureKind::kNoFinishReason, "in 1 of 2 choices"},
           {"one choice of two", kGood + kGoodEnd, FailureKind::kEmptyOutput, "1 of 2 choices"},
           {"a third of two",
            both(R"("length")", R"("length")") + Data(R"({"choices":[{"index":2,"text":"c"}]})"),
            FailureKind::kAfterDone}}) {
    stream.asked = Asked(plan::Api::kCompletions, true, 2);
    streams.push_back(stream);
  }
  return streams;
}

// Responses that are one JSON body.
std::vector<Stream> Bodies() {
  const auto body = [](const std::string& choice, const std::string& usage = kUsage) {
    return R"({"object":"text_completion","choices":[)" + choice + "]," + usage + "}";
  };
  const std::string good = R"({"index":0,"text":"abcd","finish_reason":"length"})";
  std::vector<Stream> bodies = {
      {"plain", body(good), {}},
      {"with white space around it", "\r\n " + body(good) + "\n", {}},
      {"text empty", body(R"({"text":"","finish_reason":"length"})"), FailureKind::kEmptyOutput},
      {"no choice", body(""), FailureKind::kEmptyOutput},
      {"no reason", body(R"({"text":"abcd"})"), FailureKind::kNoFinishReason},
      {"no usage", R"({"choices":[)" + good + "]}", FailureKind::kUsageInvalid, "absent"},
      {"usage null", body(good, R"("usage":null)"), FailureKind::kUsageInvalid, "usage: null"},
      {"an error", R"({"error":{"message":"x"}})", FailureKind::kInBandError, "x"},
      {"empty", "", FailureKind::kNoEvents, "an empty body"},
      {"cut", body(good).substr(0, 40), FailureKind::kMalformedEvent, "not JSON"},
      {"cut, as its framing says", body(good).substr(0, 40), FailureKind::kTransport, "", 0, 200,
       "application/json", EndKind::kBroken},
      {"two", body(good) + body(good), FailureKind::kMalformedEvent},
      {"a stream", kGood + kGoodEnd, FailureKind::kNotAStream, "text/event-stream", 0, 200,
       "text/event-stream"},
      {"a stream under JSON's type", kGood + kGoodEnd, FailureKind::kMalformedEvent, "not JSON"},
      {"HTML", "<html>", FailureKind::kNotAStream, "<html>", 0, 200, "text/html"},
      {"500", R"({"error":"x"})", FailureKind::kHttpStatus, "HTTP 500", 0, 500},
      {"short", body(good, R"("usage":{"prompt_tokens":8,"completion_tokens":3})"),
       FailureKind::kOutputLength},
  };
  for (Stream& stream : bodies) {
    if (stream.content_type == "text/event-stream; charset=utf-8") {
      stream.content_type = "application/json";
    }
    stream.asked = Asked(plan::Api::kCompletions, false);
  }
  const std::string calls =
      R"("tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},)"
      R"({"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}])";
  for (Stream& stream : std::vector<Stream>{
           {"text", body(R"({"message":{"content":"abcd"},"finish_reason":"stop"})"), {}},
           {"calls",
            body(R"({"message":{"content":null,)" + calls + R"(},"finish_reason":"tool_calls"})"),
            {}},
           {"reasoning only",
            body(R"({"message":{"content":null,"reasoning":"hm"},"finish_reason":"length"})"),
            {}},
           {"a delta", body(R"({"delta":{"content":"abcd"},"finish_reason":"stop"})"),
            FailureKind::kEmptyOutput},
           {"a message that is text", body(R"({"message":"abcd","finish_reason":"stop"})"),
            FailureKind::kMalformedEvent, R"("message" is not an object)"}}) {
    stream.name = "chat: " + stream.name;
    stream.content_type = "application/json; charset=utf-8";
    stream.asked = Asked(plan::Api::kChat, false);
    bodies.push_back(stream);
  }
  return bodies;
}

std::vector<Stream> AllOfThem() {
  std::vector<Stream> all = Streams();
  for (const auto& more : {ChatStreams(), Bodies()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

struct Result {
  Observation seen;
  std::optional<evidence::Failure> failure;
  std::vector<std::string> notes;
};

Result ReadStream(const Stream& stream, const std::vector<std::string_view>& pieces) {
  ResponseReader reader;
  reader.Reset(stream.asked.form);
  reader.OnHeaders(stream.status, stream.content_type, "");
  for (const std::string_view piece : pieces) EXPECT_TRUE(reader.OnBody(piece, kStart));
  reader.OnEnd(stream.end, "", kStart);
  EXPECT_EQ(*reader.raw().Read(), stream.body);
  const Outcome outcome = Judge(stream.asked, reader.observation());
  return {reader.observation(), outcome.failure, outcome.notes};
}

std::string Print(const Result& outcome) {
  const Observation& seen = outcome.seen;
  std::string text = outcome.failure ? std::string(evidence::Name(outcome.failure->kind)) + ": " +
                                           outcome.failure->detail
                                     : "accepted";
  text += " events=" + std::to_string(seen.events) + " chunks=" + std::to_string(seen.chunks) +
          " bytes=" + std::to_string(seen.text_bytes) +
          " stamps=" + std::to_string(seen.first_byte.has_value()) +
          std::to_string(seen.first_text.has_value()) +
          std::to_string(seen.last_token.has_value()) + std::to_string(seen.done.has_value());
  text += " reasoning=" + seen.reasoning_field + ":" + std::to_string(seen.reasoning_bytes) +
          " calls=" + std::to_string(seen.tool_calls);
  for (const std::string& note : outcome.notes) text += " note=" + note;
  return text;
}

TEST(Streams, GetTheirVerdictAtEverySplit) {
  for (const Stream& stream : AllOfThem()) {
    SCOPED_TRACE(stream.name);
    const std::string_view body = stream.body;
    const Result whole = ReadStream(stream, {body});
    if (stream.expected) {
      ASSERT_TRUE(whole.failure.has_value());
      EXPECT_EQ(evidence::Name(whole.failure->kind), evidence::Name(*stream.expected));
      EXPECT_THAT(whole.failure->detail, HasSubstr(stream.detail));
    } else {
      EXPECT_EQ(whole.failure ? whole.failure->detail : "", "");
    }
    EXPECT_EQ(whole.notes.size(), static_cast<std::size_t>(stream.notes)) << Print(whole);
    // A request without text has no latency, whatever else it has.
    const bool streamed = stream.asked.form.stream;
    const bool output = whole.seen.chunks > 0;
    EXPECT_EQ(whole.seen.first_text.has_value(), streamed && whole.seen.text_bytes > 0);
    EXPECT_EQ(whole.seen.first_token.has_value(), streamed && output);
    EXPECT_EQ(whole.seen.last_token.has_value(), output);

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
  const Result outcome = ReadStream({"long", body, {}}, {body});
  EXPECT_FALSE(outcome.failure);
  EXPECT_EQ(outcome.seen.text_bytes, 200 << 10);
}

TEST(Streams, OverACapIsOursAndNamesTheCap) {
  ResponseReader reader;
  reader.OnHeaders(200, "text/event-stream", "");
  EXPECT_FALSE(reader.OnBody("data: " + std::string((1 << 20) + 1, 'x'), kStart));
  EXPECT_FALSE(reader.OnBody("\n\n" + kGood, kStart));
  reader.OnEnd(EndKind::kOverCap, "", kStart);
  const auto failure = Judge(kAsked, reader.observation()).failure;
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, FailureKind::kOverCap);
  EXPECT_THAT(failure->detail, HasSubstr("a line over 1048576 bytes"));
}

}  // namespace
}  // namespace upgrade_gate::load
