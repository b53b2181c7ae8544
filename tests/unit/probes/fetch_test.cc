#include "framework/probes/fetch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/support/fake_transport.h"

namespace upgrade_gate::probes {
namespace {

using namespace std::chrono_literals;
using ::upgrade_gate::testing::FakeTransport;
using ::upgrade_gate::testing::Script;

class FetchTest : public ::testing::Test {
 protected:
  Fetched Get(
      Script script, base::Nanoseconds limit = 1s,
      std::function<bool()> give_up = [] { return false; }) {
    transport_.scripts = {std::move(script)};
    const auto fetched =
        Fetch(transport_, clock_, "http://127.0.0.1:1/x", clock_.now() + limit, give_up);
    EXPECT_TRUE(fetched);
    EXPECT_EQ(transport_.in_flight(), 0);
    return fetched ? *fetched : Fetched{};
  }
  base::ManualClock clock_;
  FakeTransport transport_{clock_};
};

TEST_F(FetchTest, GivesStatusAndWholeBody) {
  const Fetched fetched =
      Get(Script().Head(1ms, 503, "text/plain").Body(2ms, "a").Body(3ms, "b").End(4ms));
  EXPECT_EQ(fetched.status, 503);
  EXPECT_EQ(fetched.body, "ab");
  EXPECT_EQ(fetched.problem, "");
  EXPECT_EQ(transport_.started[0].method, "GET");
}

TEST_F(FetchTest, ACutBodyIsNoResponse) {
  const Fetched fetched = Get(Script().Head(1ms).Body(2ms, "a").End(
      3ms, {load::TransferEnd::Kind::kBroken, "reset", false}));
  EXPECT_FALSE(fetched.status);
  EXPECT_EQ(fetched.problem, "reset");
}

TEST_F(FetchTest, AHangingServerIsGivenUpAtTheLimit) {
  const Fetched fetched = Get(Script().Head(1ms), 250ms);
  EXPECT_FALSE(fetched.status);
  EXPECT_EQ(fetched.problem, "no whole response in time");
  EXPECT_EQ(clock_.now(), base::Instant{} + 250ms);
}

TEST_F(FetchTest, IsGivenUpWhenAsked) {
  const Fetched fetched =
      Get(Script(), 10s, [this] { return clock_.now() >= base::Instant{} + 1s; });
  EXPECT_FALSE(fetched.status);
  EXPECT_LE(clock_.now(), base::Instant{} + 1100ms);
}

TEST_F(FetchTest, CapsTheBody) {
  const std::string most(kFetchBodyCap, 'x');
  EXPECT_EQ(Get(Script().Head(1ms).Body(2ms, most).End(3ms)).body.size(), kFetchBodyCap);
  const Fetched over = Get(Script().Head(1ms).Body(2ms, most).Body(3ms, "y").End(3ms));
  EXPECT_FALSE(over.status);
  EXPECT_EQ(over.problem, "a body over 4194304 bytes");
  const Fetched endless = Get(Script().Head(1ms).Body(2ms, most + "y"), 10s);
  EXPECT_EQ(endless.problem, "a body over 4194304 bytes");
}

TEST_F(FetchTest, ATransportThatFailsIsAnError) {
  transport_.scripts = {Script()};
  transport_.poll_error = "epoll: no";
  const auto fetched =
      Fetch(transport_, clock_, "http://127.0.0.1:1/x", clock_.now() + 1s, [] { return false; });
  ASSERT_FALSE(fetched);
  EXPECT_EQ(transport_.in_flight(), 0);
}

}  // namespace
}  // namespace upgrade_gate::probes
