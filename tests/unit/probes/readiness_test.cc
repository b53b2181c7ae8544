#include "framework/probes/readiness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "framework/load/curl_transport.h"
#include "tests/support/fake_server.h"
#include "tests/support/fake_transport.h"
#include "tests/support/loopback_server.h"

namespace upgrade_gate::probes {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::upgrade_gate::testing::FakeServer;
using ::upgrade_gate::testing::FakeTransport;
using ::upgrade_gate::testing::Script;

const std::string kModels = R"({"object":"list","data":[{"id":"other"},{"id":"model-a"}]})";
const std::string kStream =
    "data: {\"choices\":[{\"text\":\"ab\",\"finish_reason\":\"length\"}],"
    "\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n";

Script Answer(int status, const std::string& body, const std::string& type = "application/json") {
  Script script;
  script.Head(1ms, status, type).Body(1ms, body).End(1ms);
  return script;
}
Script Refused() {
  Script script;
  script.End(1ms, {load::TransferEnd::Kind::kConnectFailed, "Connection refused", false});
  return script;
}
Script Generated(const std::string& body = kStream) {
  return Answer(200, body, "text/event-stream");
}

class ReadinessTest : public ::testing::Test {
 protected:
  ReadinessTest() {
    clock_.Advance(500s);
    start_ = clock_.now();
    spec_.served_name = "model-a";
    server_.Say("loading weights");
    server_.Say("\x1b[31mred\x1b[0m");
    transport_.answer = [this](const FakeTransport::Started& request) {
      const std::string path = request.url.substr(server_.address.size());
      ++asked_[path];
      if (path == "/health") return health();
      if (path == "/v1/models") return models();
      if (path == "/v1/completions") return generation();
      return version();
    };
  }

  base::Nanoseconds waited() const { return clock_.now() - start_; }
  base::Result<Ready> Wait() {
    auto result = WaitUntilReady(
        transport_, clock_, server_, spec_,
        [this](const std::string& text) { heartbeats_.push_back(text); },
        [this] { return waited() >= interrupt_at_; });
    EXPECT_EQ(transport_.in_flight(), 0);
    return result;
  }
  std::string Error() {
    const auto result = Wait();
    return result ? "ready" : result.error().message;
  }

  // What the server answers now; tests replace one.
  std::function<Script()> health = [] { return Answer(200, ""); };
  std::function<Script()> models = [] { return Answer(200, kModels); };
  std::function<Script()> generation = [] { return Generated(); };
  std::function<Script()> version = [] { return Answer(200, R"({"version":"0.32.1"})"); };

  base::ManualClock clock_;
  base::Instant start_;
  FakeTransport transport_{clock_};
  FakeServer server_;
  ReadinessSpec spec_;
  base::Nanoseconds interrupt_at_ = 1000h;
  std::vector<std::string> heartbeats_;
  std::map<std::string, int> asked_;
};

TEST_F(ReadinessTest, IsReadyAfterOneValidatedGeneration) {
  const auto ready = Wait();
  ASSERT_TRUE(ready) << ready.error().message;
  EXPECT_EQ(ready->after, 3ms);
  EXPECT_EQ(ready->version, "0.32.1");
  EXPECT_EQ(transport_.started.size(), 4u);
  EXPECT_THAT(transport_.started[2].body,
              ::testing::AllOf(HasSubstr(R"("model":"model-a")"), HasSubstr(R"("max_tokens":4)")));
}

TEST_F(ReadinessTest, WaitsForEachStageInTurn) {
  health = [this] {
    if (waited() < 1s) return Refused();
    return Answer(waited() < 2s ? 503 : 200, "");
  };
  models = [this] {
    if (waited() < 3s) return Answer(404, "{}");
    return Answer(200, waited() < 4s ? R"({"data":[]})" : kModels);
  };
  generation = [this] { return waited() < 5s ? Answer(503, "loading") : Generated(); };
  const auto ready = Wait();
  ASSERT_TRUE(ready) << ready.error().message;
  EXPECT_GE(ready->after, 5s);
  EXPECT_LE(ready->after, 5200ms);
}

TEST_F(ReadinessTest, ServersWithoutAVersionAreReadyToo) {
  for (const Script& answer :
       {Answer(404, ""), Answer(200, "<html>"), Answer(200, R"({"version":3})"), Refused()}) {
    version = [answer] { return answer; };
    const auto ready = Wait();
    ASSERT_TRUE(ready);
    EXPECT_EQ(ready->version, "");
  }
}

TEST_F(ReadinessTest, TimesOutExactlyAndSaysHowFarItCame) {
  spec_.timeout = 45min;
  spec_.retry_every = 10s;
  generation = [] { return Answer(503, "loading"); };
  EXPECT_EQ(Error(),
            "server not ready after 45min: /health answered 200; /v1/models lists \"other\" and "
            "\"model-a\"; generation: http_status (HTTP 503: loading)\n"
            "  argv: server --port $PORT\n"
            "  exit: still running\n"
            "  log, last 2 lines:\n"
            "    loading weights\n"
            "    \\x1b[31mred\\x1b[0m");
  EXPECT_GE(waited(), 45min);
  EXPECT_LE(waited(), 45min + 100ms);
}

TEST_F(ReadinessTest, AServerThatNeverListensTimesOut) {
  spec_.timeout = 90s;
  health = Refused;
  EXPECT_THAT(Error(), StartsWith("server not ready after 90s: /health: Connection refused\n"));
}

TEST_F(ReadinessTest, AHealthThatHangsIsTriedAgain) {
  health = [this] { return waited() < 25s ? Script() : Answer(200, ""); };
  const auto ready = Wait();
  ASSERT_TRUE(ready);
  EXPECT_GE(ready->after, 30s);
  EXPECT_EQ(asked_["/health"], 4);
}

TEST_F(ReadinessTest, AHungGenerationEndsWithTheTimeout) {
  spec_.timeout = 2min;
  generation = [] { return Script(); };
  EXPECT_THAT(Error(),
              HasSubstr("server not ready after 2min: /health answered 200; /v1/models lists "
                        "\"other\" and \"model-a\"; generation: no answer yet\n"));
  EXPECT_LE(waited(), 2min + 100ms);
  EXPECT_EQ(asked_["/v1/completions"], 1);
}

TEST_F(ReadinessTest, ASlowFirstGenerationIsWaitedFor) {
  generation = [] {
    Script script;
    script.Head(1ms).Body(5min, kStream).End(5min);
    return script;
  };
  const auto ready = Wait();
  ASSERT_TRUE(ready) << ready.error().message;
  EXPECT_EQ(ready->after, 5min + 2ms);
}

TEST_F(ReadinessTest, AnotherModelFailsAtOnce) {
  models = [] { return Answer(200, R"({"data":[{"id":"model-b"}]})"); };
  EXPECT_THAT(Error(),
              StartsWith("server serves other models than the plan names: /health answered "
                         "200; /v1/models lists \"model-b\", not \"model-a\" (did you mean "
                         "\"model-b\"?)\n"));
  EXPECT_LE(waited(), 10ms);
  EXPECT_EQ(asked_["/v1/completions"], 0);
}

TEST_F(ReadinessTest, HostileModelNamesAreShownVisibly) {
  std::string list = R"({"data":[)";
  for (int i = 0; i < 100; ++i) list += R"({"id":"\u001b[2J)" + std::to_string(i) + R"("},)";
  list.back() = ']';
  models = [list] { return Answer(200, list + "}"); };
  const std::string error = Error();
  EXPECT_THAT(error, HasSubstr("\"\\x1b[2J0\""));
  EXPECT_THAT(error, HasSubstr("and 92 more"));
  EXPECT_THAT(error, Not(HasSubstr("\x1b")));
}

TEST_F(ReadinessTest, AListThatIsNoneIsTriedAgain) {
  for (const char* body : {"", "[]", "{}", R"({"data":{}})", R"({"data":[{}]})", "<html>"}) {
    const base::Nanoseconds until = waited() + 1s;
    models = [this, body, until] { return Answer(200, waited() < until ? body : kModels); };
    EXPECT_TRUE(Wait()) << body;
  }
}

TEST_F(ReadinessTest, ARefusalFailsAtOnce) {
  generation = [] { return Answer(400, "unknown field min_tokens"); };
  EXPECT_THAT(Error(), ::testing::AllOf(StartsWith("server refuses the request: "),
                                        HasSubstr("HTTP 400: unknown field min_tokens")));
  EXPECT_EQ(asked_["/v1/completions"], 1);
}

TEST_F(ReadinessTest, AMissingKeyFailsAtOnce) {
  models = [] { return Answer(401, "who are you"); };
  EXPECT_THAT(Error(), StartsWith("server asks for a key that the plan does not give: "));
  EXPECT_EQ(asked_["/v1/models"], 1);
}

TEST_F(ReadinessTest, AnOccasionalBadGenerationIsTriedAgain) {
  generation = [this] {
    return asked_["/v1/completions"] < 10 ? Generated("data: [DONE]\n\n") : Generated();
  };
  EXPECT_TRUE(Wait());
}

TEST_F(ReadinessTest, AServerThatCannotAnswerFails) {
  generation = [] { return Generated("data: [DONE]\n\n"); };
  EXPECT_THAT(Error(),
              ::testing::AllOf(
                  StartsWith("server is up, but 10 generations in a row were not acceptable: "),
                  HasSubstr("generation: no_events (nothing but [DONE])")));
  EXPECT_EQ(asked_["/v1/completions"], 10);
}

TEST_F(ReadinessTest, AnExitFailsWithinTheTimeOfOneLook) {
  spec_.retry_every = 10s;
  health = [this] {
    server_.exit = server::Exit{false, "signal 9 (Killed)"};
    return Refused();
  };
  const std::string error = Error();
  EXPECT_THAT(error, StartsWith("server exited "));
  EXPECT_THAT(error, HasSubstr("\n  exit: signal 9 (Killed)\n"));
  EXPECT_LE(waited(), 100ms);
}

TEST_F(ReadinessTest, AnExitDuringTheGenerationIsSeen) {
  generation = [this] {
    server_.exit = server::Exit{false, "exit code 3"};
    return Script();
  };
  EXPECT_THAT(Error(), HasSubstr("exit: exit code 3"));
  EXPECT_LE(waited(), 200ms);
}

TEST_F(ReadinessTest, AnInterruptionIsHeardInEveryStage) {
  const auto expect_quick_end = [this](base::Nanoseconds at) {
    interrupt_at_ = waited() + at;
    EXPECT_THAT(Error(), StartsWith("interrupted while waiting for the server: "));
    EXPECT_LE(waited(), interrupt_at_ + 100ms);
    interrupt_at_ = 1000h;
  };
  const auto silent = [] { return Script(); };
  generation = silent;
  expect_quick_end(20s);
  models = silent;
  expect_quick_end(3s);
  health = silent;
  expect_quick_end(3s);
  health = Refused;
  spec_.retry_every = 1h;
  expect_quick_end(20s);
}

TEST_F(ReadinessTest, AnAnswerOfAnotherProcessIsNotReady) {
  server_.not_ours = "port 8000 belongs to pid 12";
  EXPECT_THAT(Error(),
              StartsWith("an answer came, but not provably from the server under test: port "
                         "8000 belongs to pid 12: /health answered 200; "));
}

TEST_F(ReadinessTest, BeatsTheHeart) {
  spec_.timeout = 2min;
  health = Refused;
  EXPECT_FALSE(Wait());
  ASSERT_EQ(heartbeats_.size(), 3u);
  EXPECT_THAT(heartbeats_[0], StartsWith("waiting for the server, 30"));
  EXPECT_THAT(heartbeats_[0], HasSubstr(" of 2min: /health: Connection refused"));
}

TEST_F(ReadinessTest, AHeartbeatShowsTheLastLineOfTheLog) {
  spec_.timeout = 2min;
  health = Refused;
  EXPECT_THAT(Error(), StartsWith("server not ready after 2min"));
  ASSERT_FALSE(heartbeats_.empty());
  EXPECT_THAT(heartbeats_[0], HasSubstr("; its log: \\x1b[31mred"));
}

TEST_F(ReadinessTest, TimesTheStages) {
  health = [this] {
    if (waited() < 1s) return Refused();
    return Answer(waited() < 2s ? 503 : 200, "");
  };
  models = [this] { return Answer(200, waited() < 4s ? R"({"data":[]})" : kModels); };
  generation = [this] { return waited() < 7s ? Answer(503, "loading") : Generated(); };
  const auto ready = Wait();
  ASSERT_TRUE(ready) << ready.error().message;
  ASSERT_EQ(ready->stages.size(), 3U);
  EXPECT_EQ(ready->stages[0].first, "boot");
  EXPECT_EQ(ready->stages[1].first, "load");
  EXPECT_EQ(ready->stages[2].first, "ready");
  const base::Nanoseconds least[] = {1s, 2500ms, 2500ms};
  base::Nanoseconds sum{};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_GE(ready->stages[i].second, least[i]) << i;
    EXPECT_LE(ready->stages[i].second, least[i] + 1s) << i;
    sum += ready->stages[i].second;
  }
  EXPECT_EQ(sum, ready->after);
}

TEST_F(ReadinessTest, EachStageHasItsOwnDeadline) {
  spec_.limits = {.pull = {}, .boot = 5s, .load = 10s, .ready = 20s};
  health = Refused;
  EXPECT_THAT(Error(), StartsWith("server not ready: the stage \"boot\" is not over after its 5s: "
                                  "nothing answers HTTP: /health: Connection refused\n"));
  EXPECT_LE(waited(), 5100ms);

  start_ = clock_.now();
  health = [] { return Answer(503, ""); };
  EXPECT_THAT(Error(), StartsWith("server not ready: the stage \"load\" is not over after its 10s: "
                                  "the model is not served: /health answered 503\n"));
  EXPECT_LE(waited(), 10200ms);

  start_ = clock_.now();
  health = [] { return Answer(200, ""); };
  generation = [] {
    Script script;
    script.Head(1ms, 200, "text/event-stream");  // and nothing more
    return script;
  };
  EXPECT_THAT(Error(),
              StartsWith("server not ready: the stage \"ready\" is not over after its 20s: "
                         "no generation was accepted: "));
  EXPECT_GE(waited(), 20s);
  EXPECT_LE(waited(), 20300ms);
}

TEST_F(ReadinessTest, AFatalLineOfTheLogEndsTheWaitAtOnce) {
  health = Refused;
  spec_.fault = [this] {
    return waited() < 3s ? std::string() : "the log has a fatal line (cuda, line 9)";
  };
  EXPECT_THAT(Error(),
              StartsWith("server gave up 3s after its start, before it was ready: the log "
                         "has a fatal line (cuda, line 9): /health: Connection refused\n"));
  EXPECT_LE(waited(), 3100ms);
}

TEST_F(ReadinessTest, AFatalLineIsToldBeforeTheExitThatItExplains) {
  server_.exit = server::Exit{false, "exit code 1"};
  spec_.fault = [] { return std::string("the log has a fatal line"); };
  const std::string error = Error();
  EXPECT_THAT(error, HasSubstr("the log has a fatal line"));
  EXPECT_THAT(error, HasSubstr("\n  exit: exit code 1\n"));
}

TEST_F(ReadinessTest, WaitsForTheLineThatTheRulesName) {
  spec_.log_ready = [this] { return waited() >= 4s; };
  const auto ready = Wait();
  ASSERT_TRUE(ready) << ready.error().message;
  EXPECT_GE(ready->after, 4s);
  start_ = clock_.now();
  spec_.timeout = 10s;
  spec_.log_ready = [] { return false; };
  EXPECT_THAT(Error(),
              HasSubstr("generation: accepted, but the line that the log rules wait for has "
                        "not come"));
}

TEST_F(ReadinessTest, ATransportThatFailsIsAnError) {
  transport_.poll_error = "epoll: no";
  EXPECT_EQ(Error(), "epoll: no");
}

TEST(Readiness, HoldsOverRealSockets) {
  using testing::Chunk;
  using testing::Connection;
  std::atomic<int> asked = 0;
  testing::LoopbackServer real([&](Connection& connection) {
    while (const auto request = connection.ReadRequest()) {
      std::string body = "{}";
      if (request->starts_with("POST /v1/completions ")) {
        if (++asked > 1) {
          connection.Send(testing::StreamHead() + Chunk(kStream) + testing::LastChunk());
          continue;
        }
        connection.Send("HTTP/1.1 503 Loading\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
        continue;
      }
      if (request->starts_with("GET /v1/models ")) body = kModels;
      if (request->starts_with("GET /version ")) body = R"({"version":"1.2"})";
      connection.Send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
                      std::to_string(body.size()) + "\r\n\r\n" + body);
    }
  });
  base::SystemClock clock;
  auto transport = load::MakeCurlTransport(clock, {});
  ASSERT_TRUE(transport);
  FakeServer server;
  server.address = real.url();
  ReadinessSpec spec;
  spec.served_name = "model-a";
  const auto ready = WaitUntilReady(**transport, clock, server, spec, {}, {});
  ASSERT_TRUE(ready) << ready.error().message;
  EXPECT_EQ(ready->version, "1.2");
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace upgrade_gate::probes
