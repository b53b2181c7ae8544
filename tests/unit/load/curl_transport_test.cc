#include "framework/load/curl_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "framework/load/driver.h"
#include "framework/load/prime.h"
#include "tests/support/loopback_server.h"
#include "tests/support/test_authority.h"
#include "tests/unit/base/temp_folder.h"

namespace upgrade_gate::load {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::upgrade_gate::testing::Chunk;
using ::upgrade_gate::testing::Connection;
using ::upgrade_gate::testing::LastChunk;
using ::upgrade_gate::testing::LoopbackServer;
using ::upgrade_gate::testing::StreamHead;

using Kind = TransferEnd::Kind;

// Remembers all that came, as text: "200 text/event-stream", "body", …
class Recorder final : public TransferSink {
 public:
  void OnHead(TransferId, const ResponseHead& head, base::Instant) override {
    heads.push_back(head);
    if (on_head) on_head();
  }
  void OnBody(TransferId, std::string_view bytes, const Arrival& arrival) override {
    body.append(bytes);
    arrivals.push_back(arrival);
    last_at = arrival.at;
    if (on_body) on_body();
  }
  void OnEnd(TransferId, const TransferEnd& ended, base::Instant) override {
    ends.push_back(ended);
  }

  std::vector<ResponseHead> heads;
  std::string body;
  base::Instant last_at;
  std::vector<Arrival> arrivals;
  std::vector<TransferEnd> ends;
  std::function<void()> on_head, on_body;
};

class CurlTransportTest : public ::testing::Test {
 protected:
  CurlTransportTest() : transport_(Make({})) {}

  std::unique_ptr<Transport> Make(const CurlOptions& options) {
    auto made = MakeCurlTransport(clock_, options);
    EXPECT_TRUE(made);
    return std::move(*made);
  }
  TransferId Start(const LoopbackServer& server, Recorder& recorder, std::string_view body = "{}") {
    HttpRequest request;
    request.url = server.url() + "/v1/completions";
    request.headers = {{"Content-Type", "application/json"}};
    request.body = body;
    auto id = transport_->Start(request, recorder);
    EXPECT_TRUE(id);
    return id ? *id : 0;
  }
  void PollUntilEnd(const Recorder& recorder) {
    const base::Instant limit = clock_.now() + 20s;
    while (recorder.ends.empty() && clock_.now() < limit) ASSERT_TRUE(transport_->Poll(limit));
    ASSERT_EQ(recorder.ends.size(), 1u);
  }
  Recorder Fetch(const LoopbackServer& server, std::string_view body = "{}") {
    Recorder recorder;
    Start(server, recorder, body);
    PollUntilEnd(recorder);
    return recorder;
  }

  base::SystemClock clock_;
  std::unique_ptr<Transport> transport_;
};

// Answers every request of a connection with the same bytes, then closes.
LoopbackServer::Handler Always(const std::string& response) {
  return [response](Connection& connection) {
    if (connection.ReadRequest()) connection.Send(response);
  };
}

TEST_F(CurlTransportTest, DeliversHeadBodyAndEnd) {
  LoopbackServer server(
      Always(StreamHead("Retry-After:  7 \r\n") + Chunk("one") + Chunk("two") + LastChunk()));
  const Recorder got = Fetch(server);
  ASSERT_EQ(got.heads.size(), 1u);
  EXPECT_EQ(got.heads[0].status, 200);
  EXPECT_EQ(got.heads[0].content_type, "text/event-stream; charset=utf-8");
  EXPECT_EQ(got.heads[0].retry_after, "7");
  EXPECT_EQ(got.body, "onetwo");
  EXPECT_EQ(got.ends[0].kind, Kind::kComplete);
  EXPECT_TRUE(got.ends[0].new_connection);
}

TEST_F(CurlTransportTest, SendsExactlyTheBodyOverHttp11WithoutExpect) {
  std::promise<std::string> sent;
  LoopbackServer server([&](Connection& connection) {
    sent.set_value(connection.ReadRequest().value_or(""));
    connection.Send("HTTP/1.1 204 No Content\r\n\r\n");
  });
  const std::string body(3 << 20, 'x');
  const Recorder got = Fetch(server, body);
  EXPECT_EQ(got.heads[0].status, 204);
  const std::string request = sent.get_future().get();
  EXPECT_THAT(request.substr(0, 100), ::testing::StartsWith("POST /v1/completions HTTP/1.1\r\n"));
  const std::size_t end = request.find("\r\n\r\n");
  EXPECT_THAT(request.substr(0, end + 2), HasSubstr("\r\nContent-Length: 3145728\r\n"));
  EXPECT_THAT(request.substr(0, end), HasSubstr("\r\nContent-Type: application/json"));
  EXPECT_THAT(request.substr(0, end), Not(HasSubstr("Expect")));
  EXPECT_THAT(request.substr(0, end), Not(HasSubstr("Upgrade")));
  EXPECT_TRUE(request.substr(end + 4) == body);
}

TEST_F(CurlTransportTest, PostsAnEmptyBodyAndGets) {
  std::vector<std::string> requests;
  LoopbackServer server([&](Connection& connection) {
    while (auto request = connection.ReadRequest()) {
      requests.push_back(*request);
      connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
  });
  Fetch(server, "");
  Recorder got;
  HttpRequest get;
  get.method = "GET";
  get.url = server.url() + "/health";
  ASSERT_TRUE(transport_->Start(get, got));
  PollUntilEnd(got);
  Fetch(server, "{}");
  transport_.reset();
  server.Stop();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_THAT(requests[0], HasSubstr("Content-Length: 0\r\n"));
  EXPECT_THAT(requests[1], ::testing::StartsWith("GET /health HTTP/1.1\r\n"));
  EXPECT_THAT(requests[1], Not(HasSubstr("Content-")));
  EXPECT_THAT(requests[2], ::testing::EndsWith("\r\n\r\n{}"));
}

TEST_F(CurlTransportTest, ReusesAConnection) {
  LoopbackServer server([](Connection& connection) {
    while (connection.ReadRequest())
      connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  EXPECT_TRUE(Fetch(server).ends[0].new_connection);
  EXPECT_FALSE(Fetch(server).ends[0].new_connection);
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(CurlTransportTest, ABodyShorterThanAnnouncedIsBroken) {
  LoopbackServer server(Always("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"));
  const Recorder got = Fetch(server);
  EXPECT_EQ(got.body, "short");
  EXPECT_EQ(got.ends[0].kind, Kind::kBroken);
  EXPECT_NE(got.ends[0].detail, "");
}

TEST_F(CurlTransportTest, BrokenChunkingIsBroken) {
  for (const std::string& end :
       {std::string(""), Chunk("abc").substr(0, 4), std::string("zz\r\n")}) {
    LoopbackServer server(Always(StreamHead() + Chunk("data: x") + end));
    const Recorder got = Fetch(server);
    EXPECT_THAT(got.body, ::testing::StartsWith("data: x"));
    EXPECT_EQ(got.ends[0].kind, Kind::kBroken) << end;
  }
}

TEST_F(CurlTransportTest, ACloseEndsABodyThatAnnouncesNoLength) {
  LoopbackServer server(
      Always("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n"));
  const Recorder got = Fetch(server);
  EXPECT_EQ(got.ends[0].kind, Kind::kComplete);
  EXPECT_EQ(got.body, "data: x\n\n");
}

TEST_F(CurlTransportTest, AResetIsBroken) {
  std::promise<void> received;
  LoopbackServer server([&](Connection& connection) {
    connection.ReadRequest();
    connection.Send(StreamHead() + Chunk("data: x"));
    received.get_future().wait();
    connection.Reset();
  });
  Recorder got;
  got.on_body = [&] { received.set_value(); };
  Start(server, got);
  PollUntilEnd(got);
  EXPECT_EQ(got.body, "data: x");
  EXPECT_EQ(got.ends[0].kind, Kind::kBroken);
  EXPECT_THAT(got.ends[0].detail, HasSubstr("reset"));
}

TEST_F(CurlTransportTest, NothingListeningIsConnectFailed) {
  LoopbackServer server([](Connection&) {});
  server.Stop();
  const Recorder got = Fetch(server);
  EXPECT_EQ(got.ends[0].kind, Kind::kConnectFailed);
  EXPECT_TRUE(got.heads.empty());
}

TEST_F(CurlTransportTest, WhatIsNotHttpIsBroken) {
  LoopbackServer server(Always("SSH-2.0-OpenSSH_9.2\r\n"));
  const Recorder got = Fetch(server);
  EXPECT_TRUE(got.heads.empty());
  EXPECT_EQ(got.ends[0].kind, Kind::kBroken);
}

// libcurl itself would send the request again over a fresh connection.
TEST_F(CurlTransportTest, APooledConnectionFoundDeadIsReportedAndNotRetried) {
  for (const bool reset : {false, true}) {
    std::atomic<int> requests = 0;
    LoopbackServer server([&](Connection& connection) {
      if (connection.ReadRequest()) {
        ++requests;
        connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
      }
      // Takes the next request and goes away without a byte.
      if (connection.ReadRequest()) ++requests;
      if (reset) connection.Reset();
    });
    EXPECT_EQ(Fetch(server).ends[0].kind, Kind::kComplete);
    const Recorder got = Fetch(server);
    ASSERT_EQ(got.ends.size(), 1u);
    EXPECT_EQ(got.ends[0].kind, Kind::kBroken);
    EXPECT_EQ(got.ends[0].detail,
              "a pooled connection was dead before a byte of the response came; not sent again");
    EXPECT_FALSE(got.ends[0].new_connection);
    EXPECT_EQ(requests, 2);
    EXPECT_EQ(server.connections(), 1);
    // The transport is whole: the next request goes over a new connection.
    EXPECT_EQ(Fetch(server).ends[0].kind, Kind::kComplete);
    EXPECT_EQ(server.connections(), 2);
  }
}

TEST_F(CurlTransportTest, ADeadPooledConnectionIsNotReplacedByAnotherPooledOne) {
  std::atomic<int> requests = 0;
  LoopbackServer server([&](Connection& connection) {
    for (int i = 0; connection.ReadRequest(); ++i) {
      ++requests;
      if (i > 0) return;
      connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
  });
  Recorder one, two;
  Start(server, one);
  Start(server, two);
  PollUntilEnd(one);
  PollUntilEnd(two);
  ASSERT_EQ(server.connections(), 2);
  EXPECT_EQ(Fetch(server).ends[0].kind, Kind::kBroken);
  EXPECT_EQ(requests, 3);
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(CurlTransportTest, ADeadPooledConnectionToAServerThatIsGoneIsBrokenToo) {
  std::promise<void> gone;
  auto server = std::make_unique<LoopbackServer>([&](Connection& connection) {
    if (connection.ReadRequest()) connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    connection.ReadRequest();
  });
  EXPECT_EQ(Fetch(*server).ends[0].kind, Kind::kComplete);
  const std::string url = server->url();
  Recorder got;
  Start(*server, got);
  // Puts the request on the pooled connection before the server goes.
  ASSERT_TRUE(transport_->Poll(clock_.now()));
  server.reset();
  PollUntilEnd(got);
  EXPECT_EQ(got.ends[0].kind, Kind::kBroken);
}

TEST_F(CurlTransportTest, InterimResponsesAreNotTheHead) {
  LoopbackServer server(
      Always("HTTP/1.1 103 Early Hints\r\nContent-Type: text/html\r\n\r\n"
             "HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno"));
  const Recorder got = Fetch(server);
  ASSERT_EQ(got.heads.size(), 1u);
  EXPECT_EQ(got.heads[0].status, 503);
  EXPECT_EQ(got.heads[0].content_type, "");
}

TEST_F(CurlTransportTest, DoesNotFollowRedirects) {
  LoopbackServer elsewhere(Always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  LoopbackServer server(Always("HTTP/1.1 302 Found\r\nLocation: " + elsewhere.url() +
                               "/\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_EQ(Fetch(server).heads[0].status, 302);
  EXPECT_EQ(elsewhere.connections(), 0);
}

TEST_F(CurlTransportTest, IgnoresProxiesOfTheEnvironment) {
  LoopbackServer proxy(Always("HTTP/1.1 500 Proxy\r\nContent-Length: 0\r\n\r\n"));
  LoopbackServer server(Always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  setenv("http_proxy", proxy.url().c_str(), 1);
  setenv("ALL_PROXY", proxy.url().c_str(), 1);
  const Recorder got = Fetch(server);
  unsetenv("http_proxy");
  unsetenv("ALL_PROXY");
  EXPECT_EQ(got.heads[0].status, 200);
  EXPECT_EQ(proxy.connections(), 0);
}

TEST_F(CurlTransportTest, OnlySpeaksHttp) {
  Recorder got;
  HttpRequest request;
  request.method = "GET";
  request.url = "file:///etc/hostname";
  ASSERT_TRUE(transport_->Start(request, got));
  PollUntilEnd(got);
  EXPECT_EQ(got.ends[0].kind, Kind::kConnectFailed);
  EXPECT_EQ(got.body, "");
}

TEST_F(CurlTransportTest, RefusesOtherMethodsAndLineBreaksInHeaders) {
  Recorder got;
  HttpRequest request;
  request.url = "http://127.0.0.1:1/";
  request.method = "DELETE";
  EXPECT_FALSE(transport_->Start(request, got));
  request.method = "GET";
  request.headers = {{"X", "a\r\nHost: b"}};
  const auto started = transport_->Start(request, got);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().message, "header \"X\": a line break in it");
}

TEST_F(CurlTransportTest, CapsTheHeaders) {
  std::string head = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 100; ++i) head += "X-Filler: " + std::string(1000, 'x') + "\r\n";
  LoopbackServer server(Always(head + "Content-Length: 2\r\n\r\nok"));
  const Recorder got = Fetch(server);
  EXPECT_TRUE(got.heads.empty());
  EXPECT_EQ(got.ends[0].kind, Kind::kOverCap);
  EXPECT_EQ(got.ends[0].detail, "response headers over 65536 bytes");
}

TEST_F(CurlTransportTest, CancelClosesTheConnectionAndIsSilent) {
  std::promise<bool> closed;
  LoopbackServer server([&](Connection& connection) {
    connection.ReadRequest();
    connection.Send(StreamHead() + Chunk("data: x"));
    closed.set_value(connection.WaitForClose());
  });
  Recorder got;
  const TransferId id = Start(server, got);
  while (got.body.empty()) ASSERT_TRUE(transport_->Poll(clock_.now() + 20s));
  transport_->Cancel(id);
  transport_->Cancel(id);
  EXPECT_TRUE(closed.get_future().get());
  ASSERT_TRUE(transport_->Poll(clock_.now()));
  EXPECT_TRUE(got.ends.empty());
}

TEST_F(CurlTransportTest, CancelFromWithinACallbackIsSafe) {
  LoopbackServer server(Always(StreamHead() + Chunk("data: x") + Chunk("data: y") + LastChunk()));
  for (const bool at_head : {true, false}) {
    Recorder got;
    TransferId id = 0;
    bool called = false;
    (at_head ? got.on_head : got.on_body) = [&] {
      called = true;
      transport_->Cancel(id);
    };
    id = Start(server, got);
    while (!called) ASSERT_TRUE(transport_->Poll(clock_.now() + 20s));
    ASSERT_TRUE(transport_->Poll(clock_.now()));
    EXPECT_EQ(got.heads.size(), 1u);
    EXPECT_TRUE(got.ends.empty());
  }
  EXPECT_EQ(Fetch(server).body, "data: xdata: y");
}

TEST_F(CurlTransportTest, AnEndedIdMeansNothing) {
  LoopbackServer server(
      Always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"));
  Recorder first, second;
  const TransferId old = Start(server, first);
  PollUntilEnd(first);
  const TransferId id = Start(server, second);  // the same handle, used again
  EXPECT_NE(id, old);
  transport_->Cancel(old);
  PollUntilEnd(second);
  EXPECT_EQ(second.body, "ok");
}

TEST_F(CurlTransportTest, PollReturnsAtItsTimeWithNothingToDo) {
  const base::Instant until = clock_.now() + 5ms;
  ASSERT_TRUE(transport_->Poll(until));
  EXPECT_GE(clock_.now(), until);
  ASSERT_TRUE(transport_->Poll(clock_.now() - 1s));
}

TEST_F(CurlTransportTest, PollReturnsWhenSomethingWasDelivered) {
  std::promise<void> finish;
  LoopbackServer server([&](Connection& connection) {
    connection.ReadRequest();
    connection.Send(StreamHead() + Chunk("data: x"));
    finish.get_future().wait();
  });
  Recorder got;
  Start(server, got);
  const base::Instant far = clock_.now() + 1h;
  while (got.body.empty()) ASSERT_TRUE(transport_->Poll(far));
  EXPECT_LE(got.last_at, clock_.now());
  finish.set_value();
  PollUntilEnd(got);
}

TEST_F(CurlTransportTest, MayBeDestroyedWithTransfersInFlight) {
  LoopbackServer server([](Connection& connection) {
    connection.ReadRequest();
    connection.Send(StreamHead() + Chunk("data: x"));
    connection.WaitForClose();
  });
  Recorder got;
  Start(server, got);
  while (got.body.empty()) ASSERT_TRUE(transport_->Poll(clock_.now() + 20s));
  transport_.reset();
  EXPECT_TRUE(got.ends.empty());
}

// A sender faster than its reader keeps libcurl reading; only the sink can end that.
TEST_F(CurlTransportTest, AFloodIsCutOffAtTheCap) {
  LoopbackServer server([](Connection& connection) {
    connection.ReadRequest();
    connection.Send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    const std::string flood = std::string(100'000, ':') + '\n';
    while (connection.Send(flood)) {
    }
  });
  Load load;
  load.url = server.url() + "/v1/completions";
  load.caps.body_bytes = 8 << 20;
  const auto result =
      RunLoad(*transport_, clock_, load, {PrepareCompletion("m", {}, {1, 2}, 4)}, {});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->requests.size(), 1u);
  ASSERT_FALSE(result->requests[0].accepted());
  EXPECT_EQ(result->requests[0].failure->kind, evidence::FailureKind::kOverCap);
  EXPECT_THAT(result->requests[0].failure->detail, HasSubstr("a body over 8388608 bytes"));
}

TEST_F(CurlTransportTest, CarriesAClosedLoopOverPooledConnections) {
  LoopbackServer server([](Connection& connection) {
    while (connection.ReadRequest()) {
      connection.Send(StreamHead());
      for (int i = 0; i < 3; ++i)
        connection.Send(Chunk("data: {\"choices\":[{\"text\":\"a\"}]}\n\n"));
      connection.Send(
          Chunk("data: {\"choices\":[{\"text\":\"b\",\"finish_reason\":\"length\"}],"
                "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n"));
      connection.Send(Chunk("data: [DONE]\n\n") + LastChunk());
    }
  });
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 100; ++i) requests.push_back(PrepareCompletion("m", {}, {i, 1, 2}, 4));
  Load load;
  load.url = server.url() + "/v1/completions";
  load.concurrency = 8;
  const auto result = RunLoad(*transport_, clock_, load, requests, {});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->requests.size(), 100u);
  for (const auto& record : result->requests) {
    EXPECT_TRUE(record.accepted()) << record.failure->detail;
    EXPECT_EQ(record.chunks, 4);
    EXPECT_LE(record.times.scheduled, record.times.sent);
    EXPECT_LT(record.times.sent, record.times.first_text);
    EXPECT_LE(record.times.first_text, record.times.last_token);
    EXPECT_LE(record.times.last_token, record.times.done);
    EXPECT_LE(record.times.done, record.times.closed);
    EXPECT_LE(*record.times.closed, result->duration);
  }
  EXPECT_EQ(result->client.new_connections, 8);
  EXPECT_EQ(server.connections(), 8);
  EXPECT_EQ(result->stopped, evidence::StopReason::kNone);
}

// The bytes came while this thread was held up elsewhere: the kernel knows when.
TEST_F(CurlTransportTest, ArrivalsAreTheKernelsHoweverLateTheyAreRead) {
  std::promise<void> head_seen;
  std::promise<std::pair<base::Instant, base::Instant>> sent;  // before and after
  LoopbackServer server([&](Connection& connection) {
    connection.ReadRequest();
    connection.Send(StreamHead());
    head_seen.get_future().wait();
    const base::Instant before = clock_.now();
    connection.Send(Chunk("data: x\n\n"));
    sent.set_value({before, clock_.now()});
    connection.ReadRequest();
  });
  Recorder got;
  const TransferId id = Start(server, got);
  const base::Instant limit = clock_.now() + 20s;
  while (got.heads.empty() && clock_.now() < limit) ASSERT_TRUE(transport_->Poll(limit));
  head_seen.set_value();
  const auto [before, after] = sent.get_future().get();
  clock_.SleepUntil(after + 20ms);
  while (got.arrivals.empty() && clock_.now() < limit) ASSERT_TRUE(transport_->Poll(limit));
  transport_->Cancel(id);
  ASSERT_EQ(got.arrivals.size(), 1u);
  const Arrival& arrival = got.arrivals[0];
  EXPECT_TRUE(arrival.stamped);
  EXPECT_GE(arrival.at, before - 200us);  // two clocks, related by us
  EXPECT_LE(arrival.at, after + 200us);
  EXPECT_GE(arrival.read - arrival.at, 19ms);
}

// libcurl reads on while a socket has more: what comes during a read that was held
// up itself is not of the stamp that was found before it.
TEST_F(CurlTransportTest, WhatComesDuringAReadIsNotStampedBeforeItCame) {
  std::promise<void> head_seen;
  std::promise<base::Instant> sent;
  LoopbackServer server([&](Connection& connection) {
    connection.ReadRequest();
    connection.Send(StreamHead());
    head_seen.get_future().wait();
    clock_.SleepUntil(clock_.now() + 20ms);  // tells the head's stamp from the chunk's
    const base::Instant before = clock_.now();
    connection.Send(Chunk("data: x\n\n"));
    sent.set_value(before);
    connection.ReadRequest();
  });
  base::Instant before;
  Recorder got;
  got.on_head = [&] {
    head_seen.set_value();
    before = sent.get_future().get();
  };
  const TransferId id = Start(server, got);
  const base::Instant limit = clock_.now() + 20s;
  while (got.arrivals.empty() && clock_.now() < limit) ASSERT_TRUE(transport_->Poll(limit));
  transport_->Cancel(id);
  ASSERT_EQ(got.arrivals.size(), 1u);
  EXPECT_GE(got.arrivals[0].at, before - 5ms);
}

TEST_F(CurlTransportTest, AnArrivalIsNeverAfterItsReadAndPiecesOfOneReadShareIt) {
  LoopbackServer server([](Connection& connection) {
    while (connection.ReadRequest()) {
      connection.Send(StreamHead() + Chunk("a") + Chunk("b") + Chunk("c") + LastChunk());
    }
  });
  std::uint64_t last_look = 0;
  for (int i = 0; i < 50; ++i) {
    const Recorder got = Fetch(server);
    ASSERT_EQ(got.arrivals.size(), 3u);
    for (const Arrival& arrival : got.arrivals) {
      EXPECT_LE(arrival.at, arrival.read);
      EXPECT_EQ(arrival.look, got.arrivals[0].look);
      EXPECT_EQ(arrival.at, arrival.stamped ? got.arrivals[0].at : arrival.read);
    }
    EXPECT_GT(got.arrivals[0].look, std::exchange(last_look, got.arrivals[0].look));
  }
}

TEST_F(CurlTransportTest, WithoutAKernelStampTheReadIsTheArrival) {
  const base::TempFolder folder;
  const std::string path = folder.path() / "s";
  LoopbackServer server(Always(StreamHead() + Chunk("x") + LastChunk()), path);
  CurlOptions options;
  options.unix_socket = path;
  transport_ = Make(options);
  const Recorder got = Fetch(server);
  EXPECT_EQ(got.body, "x");
  ASSERT_EQ(got.arrivals.size(), 1u);
  EXPECT_FALSE(got.arrivals[0].stamped);
  EXPECT_EQ(got.arrivals[0].at, got.arrivals[0].read);
}

TEST_F(CurlTransportTest, PollEndsAtItsMomentToTheMicroseconds) {
  std::vector<base::Nanoseconds> late;
  for (int i = 0; i < 31; ++i) {
    const base::Instant until = clock_.now() + 2ms;
    ASSERT_TRUE(transport_->Poll(until));
    late.push_back(clock_.now() - until);
    EXPECT_GE(late.back(), 0ns);
  }
  // Half of them: a busy machine takes the core away now and then.
  std::nth_element(late.begin(), late.begin() + 15, late.end());
  EXPECT_LT(late[15], 50us);
}

TEST_F(CurlTransportTest, SendsTheHeadersOfTheOptionsAndTheToken) {
  std::promise<std::string> sent;
  LoopbackServer server([&](Connection& connection) {
    sent.set_value(connection.ReadRequest().value_or(""));
    connection.Send("HTTP/1.1 204 No Content\r\n\r\n");
  });
  CurlOptions options;
  options.headers = {{"X-Team", "inference"}};
  options.bearer_token = "s3cret";
  transport_ = Make(options);
  Fetch(server);
  const std::string request = sent.get_future().get();
  EXPECT_THAT(request, HasSubstr("\r\nX-Team: inference\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nAuthorization: Bearer s3cret\r\n"));
}

TEST_F(CurlTransportTest, ATokenIsInNoErrorText) {
  CurlOptions options;
  options.bearer_token = "s3cret\r\nX: y";
  transport_ = Make(options);
  Recorder got;
  HttpRequest request;
  request.url = "http://127.0.0.1:1/";
  const auto id = transport_->Start(request, got);
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().message, "header \"Authorization\": a line break in it");
}

TEST(BearerTokenTest, ComesFromTheEnvironmentOrAFile) {
  setenv("UPGRADE_GATE_TEST_TOKEN", " s3cret\n", 1);
  EXPECT_EQ(BearerTokenFromEnvironment("UPGRADE_GATE_TEST_TOKEN").value_or(""), "s3cret");
  unsetenv("UPGRADE_GATE_TEST_TOKEN");
  const auto unset = BearerTokenFromEnvironment("UPGRADE_GATE_TEST_TOKEN");
  ASSERT_FALSE(unset);
  EXPECT_EQ(unset.error().message, "environment variable UPGRADE_GATE_TEST_TOKEN: is not set");

  const base::TempFolder folder;
  const std::string path = folder.path() / "token";
  const auto read = [&](const std::string& text) {
    EXPECT_TRUE(base::WriteFileAtomically(path, text));
    return BearerTokenFromFile(path);
  };
  EXPECT_EQ(read("s3cret\r\n").value_or(""), "s3cret");
  EXPECT_EQ(read(" \n").error().message, path + ": holds no token");
  for (const std::string bad : {"s3cret s3cret", "s3cr\xc3\xa9t", "s3\r\ncret"}) {
    EXPECT_EQ(read(bad).error().message,
              path + ": holds something other than one token of visible ASCII characters");
  }
}

class TlsTest : public CurlTransportTest {
 protected:
  TlsTest() { EXPECT_TRUE(base::WriteFileAtomically(folder_.path() / "ca.pem", authority_.pem())); }
  Recorder Get(const LoopbackServer& server, const std::string& ca_file) {
    CurlOptions options;
    options.ca_file = ca_file;
    transport_ = Make(options);
    Recorder recorder;
    HttpRequest request;
    request.method = "GET";
    request.url = server.https_url() + "/health";
    EXPECT_TRUE(transport_->Start(request, recorder));
    PollUntilEnd(recorder);
    return recorder;
  }
  std::string ca_file() const { return folder_.path() / "ca.pem"; }

  base::TempFolder folder_;
  ::upgrade_gate::testing::TestAuthority authority_;
};

TEST_F(TlsTest, AServerOfTheGivenAuthorityIsTrustedAndItsBytesAreStamped) {
  std::promise<void> head_seen;
  LoopbackServer server(authority_.Serve("127.0.0.1", StreamHead(), head_seen.get_future().share(),
                                         Chunk("data: x\n\n") + LastChunk()));
  CurlOptions options;
  options.ca_file = ca_file();
  transport_ = Make(options);
  Recorder got;
  HttpRequest request;
  request.method = "GET";
  request.url = server.https_url() + "/health";
  ASSERT_TRUE(transport_->Start(request, got));
  const base::Instant limit = clock_.now() + 20s;
  while (got.heads.empty() && clock_.now() < limit) ASSERT_TRUE(transport_->Poll(limit));
  head_seen.set_value();
  clock_.SleepUntil(clock_.now() + 20ms);  // the reader is held up
  PollUntilEnd(got);
  ASSERT_EQ(got.ends[0].kind, Kind::kComplete) << got.ends[0].detail;
  EXPECT_EQ(got.body, "data: x\n\n");
  EXPECT_TRUE(got.arrivals[0].stamped);
  EXPECT_GT(got.arrivals[0].read, got.arrivals[0].at);
  EXPECT_TRUE(got.ends[0].new_connection);
  EXPECT_GT(got.ends[0].connect, 0ns);
}

TEST_F(TlsTest, AnotherAuthorityOrAnotherNameIsNoConnection) {
  const std::string answer = "HTTP/1.1 204 No Content\r\n\r\n";
  LoopbackServer unknown(authority_.Serve("127.0.0.1", answer));
  Recorder got = Get(unknown, "");  // the system's authorities
  EXPECT_EQ(got.ends[0].kind, Kind::kConnectFailed);
  EXPECT_THAT(got.ends[0].detail, HasSubstr("certificate"));

  LoopbackServer elsewhere(authority_.Serve("127.0.0.2", answer));
  got = Get(elsewhere, ca_file());
  EXPECT_EQ(got.ends[0].kind, Kind::kConnectFailed);
  EXPECT_THAT(got.ends[0].detail, HasSubstr("127.0.0.1"));

  got = Get(elsewhere, folder_.path() / "absent.pem");
  EXPECT_EQ(got.ends[0].kind, Kind::kConnectFailed);
}

// Streams an accepted answer of four texts for each request of a connection.
LoopbackServer::Handler Streams() {
  return [](Connection& connection) {
    while (const auto request = connection.ReadRequest()) {
      if (request->starts_with("GET")) {
        connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        continue;
      }
      connection.Send(StreamHead());
      for (int i = 0; i < 3; ++i) {
        connection.Send(Chunk("data: {\"choices\":[{\"text\":\"a\"}]}\n\n"));
      }
      connection.Send(Chunk("data: {\"choices\":[{\"text\":\"b\",\"finish_reason\":\"length\"}],"
                            "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n") +
                      Chunk("data: [DONE]\n\n") + LastChunk());
    }
  };
}

class ShardedLoadTest : public CurlTransportTest {
 protected:
  ShardedLoadTest() {
    for (int i = 0; i < 3; ++i) {
      owned_.push_back(Make({}));
      transports_.push_back(owned_.back().get());
    }
    for (int i = 0; i < 100; ++i) requests_.push_back(PrepareCompletion("m", {}, {i, 1, 2}, 4));
  }
  std::vector<std::unique_ptr<Transport>> owned_;
  std::vector<Transport*> transports_;
  std::vector<PreparedRequest> requests_;
};

TEST_F(ShardedLoadTest, ThreeThreadsShareAClosedLoopAndItsRecordsAreWhole) {
  LoopbackServer server(Streams());
  ASSERT_TRUE(PrimeConnections(transports_, clock_, server.url(), 10));
  EXPECT_EQ(server.connections(), 10);
  Load load;
  load.url = server.url() + "/v1/completions";
  load.concurrency = 10;
  const auto result = RunLoad(transports_, clock_, load, requests_, {});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->requests.size(), 100u);
  for (std::size_t i = 0; i < 100; ++i) {
    const auto& record = result->requests[i];
    EXPECT_TRUE(record.accepted()) << record.failure->detail;
    EXPECT_EQ(record.index, static_cast<int>(i));
    EXPECT_EQ(record.body_sha256, requests_[i].body_sha256);
    EXPECT_LE(record.times.scheduled, record.times.sent);
    EXPECT_LE(record.times.sent, record.times.first_text);
    EXPECT_LE(*record.times.closed, result->duration);
  }
  EXPECT_EQ(result->client.threads, 3);
  EXPECT_EQ(result->client.new_connections, 0);
  EXPECT_EQ(server.connections(), 10);
  EXPECT_GT(result->client.reads, 0);
  // An answer that is there while the request is still being sent has no stamp.
  EXPECT_LT(result->client.unstamped_reads, result->client.reads);
  EXPECT_GT(result->client.cpu_share, 0);
}

TEST_F(ShardedLoadTest, TheGuardCountsOverAllThreads) {
  LoopbackServer server([](Connection& connection) {
    while (connection.ReadRequest()) {
      connection.Send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    }
  });
  Load load;
  load.url = server.url() + "/v1/completions";
  load.concurrency = 6;
  load.consecutive_failures = 10;
  const auto result = RunLoad(transports_, clock_, load, requests_, {});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->stopped, evidence::StopReason::kGuard);
  EXPECT_GE(result->failures_in_a_row, 10);
  EXPECT_LE(result->requests.size(), 10u + 6u);  // what was in flight runs to its end
}

TEST_F(ShardedLoadTest, AStopEndsTheThreadsThatAreLeft) {
  std::promise<void> gone;
  const auto never = gone.get_future().share();
  // The first shard's requests end at once, the others' never.
  std::atomic<int> seen = 0;
  LoopbackServer server([&](Connection& connection) {
    while (const auto request = connection.ReadRequest()) {
      ++seen;
      if (request->find("[0,1,2]") == request->npos) never.wait();
      connection.Send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    }
  });
  Load load;
  load.url = server.url() + "/v1/completions";
  load.concurrency = 3;
  requests_.resize(3);
  const auto result = RunLoad(transports_, clock_, load, requests_, [&] {
    return seen < 3 ? StopSignal{} : StopSignal{evidence::StopReason::kServiceLost, "gone"};
  });
  gone.set_value();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->stopped, evidence::StopReason::kServiceLost);
  ASSERT_EQ(result->requests.size(), 3u);
  EXPECT_THAT(result->requests[1].failure->detail, HasSubstr("cancelled by the client"));
}

TEST_F(CurlTransportTest, APrimedLoadMakesNoConnectionAndACancelledOneLeavesNone) {
  LoopbackServer server([](Connection& connection) {
    while (const auto request = connection.ReadRequest()) {
      if (!request->starts_with("GET")) {
        connection.Send(StreamHead());
        EXPECT_TRUE(connection.WaitForClose());
        return;
      }
      connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
  });
  Transport* const transport = transport_.get();
  ASSERT_TRUE(PrimeConnections(std::span(&transport, 1), clock_, server.url(), 5));
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 5; ++i) requests.push_back(PrepareCompletion("m", {}, {i}, 4));
  Load load;
  load.url = server.url() + "/v1/completions";
  load.concurrency = 5;
  int asked = 0;
  const auto result = RunLoad(*transport_, clock_, load, requests, [&] {
    return ++asked < 4 ? StopSignal{} : StopSignal{evidence::StopReason::kInterrupted, "signal 2"};
  });
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->requests.empty());
  EXPECT_EQ(server.connections(), 5);
  // Each handler sees its connection closed before the transport ends, or this
  // would not end.
  server.WaitForHandlers();
}

TEST_F(CurlTransportTest, AThreadsTimerIsAsItWasBefore) {
  LoopbackServer server(Streams());
  const int before = prctl(PR_GET_TIMERSLACK);
  Load load;
  load.url = server.url() + "/v1/completions";
  int during = 0;
  ASSERT_TRUE(RunLoad(*transport_, clock_, load, {PrepareCompletion("m", {}, {1, 2, 3}, 4)}, [&] {
    during = prctl(PR_GET_TIMERSLACK);
    return StopSignal{};
  }));
  EXPECT_EQ(during, 1);
  EXPECT_EQ(prctl(PR_GET_TIMERSLACK), before);
}

}  // namespace
}  // namespace upgrade_gate::load
