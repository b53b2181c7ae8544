#include "framework/cli/load_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace upgrade_gate::cli {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::Pair;

LoadOptions Good() {
  LoadOptions options;
  options.url = "http://127.0.0.1:8000";
  options.model = "tiny";
  options.input_tokens = "1024";
  options.output_tokens = "256";
  options.concurrency = "8";
  options.requests = "64";
  return options;
}

LoadSettings Read(const LoadOptions& options) {
  auto settings = ReadLoadOptions(options);
  EXPECT_TRUE(settings.has_value()) << (settings ? "" : settings.error().message);
  return settings ? *std::move(settings) : LoadSettings();
}

TEST(LoadSettings, AClosedLoop) {
  const LoadSettings settings = Read(Good());
  EXPECT_EQ(settings.base, "http://127.0.0.1:8000");
  EXPECT_EQ(settings.endpoint, "http://127.0.0.1:8000/v1/completions");
  EXPECT_EQ(settings.round.input_tokens, 1024);
  EXPECT_EQ(settings.round.output_tokens, 256);
  EXPECT_EQ(settings.round.concurrency, 8);
  EXPECT_EQ(settings.round.requests, 64);
  EXPECT_FALSE(settings.round.open.has_value());
  EXPECT_EQ(settings.rounds, 1);
  EXPECT_EQ(settings.warmup, 8);  // as many as in flight
  EXPECT_FALSE(settings.seed.has_value());
}

TEST(LoadSettings, AnOpenLoopWithEverythingSaid) {
  LoadOptions options = Good();
  options.concurrency.reset();
  options.requests.reset();
  options.rate = "2.5/s";
  options.arrivals = "constant";
  options.duration = "1.5min";
  options.rounds = "3";
  options.warmup = "0";
  options.stall_limit = "500ms";
  options.request_timeout = "2h";
  options.seed = "7";
  options.headers = {"X-Team: a b", "X-Empty:x"};
  options.token_env = "TOKEN";
  options.ca_file = "ca.pem";
  options.json = "-";
  options.fail_if = {"ttft.p95 > 800ms", "failures > 1%"};
  const LoadSettings settings = Read(options);
  ASSERT_TRUE(settings.round.open.has_value());
  EXPECT_EQ(settings.round.open->rate.value, 2.5);
  EXPECT_EQ(settings.round.open->arrivals, plan::Arrivals::kConstant);
  EXPECT_EQ(settings.duration, std::chrono::seconds(90));
  EXPECT_EQ(settings.rounds, 3);
  EXPECT_EQ(settings.warmup, 0);
  EXPECT_EQ(settings.stall_limit, milliseconds(500));
  EXPECT_EQ(settings.request_timeout, std::chrono::hours(2));
  EXPECT_EQ(settings.seed, 7U);
  EXPECT_THAT(settings.headers, ElementsAre(Pair("X-Team", "a b"), Pair("X-Empty", "x")));
  EXPECT_EQ(settings.fail_if.size(), 2U);
}

TEST(LoadSettings, ARateArrivesAsPoissonAndWarmsUpWithASecondOfIt) {
  LoadOptions options = Good();
  options.concurrency.reset();
  options.rate = "2.5/s";
  const LoadSettings settings = Read(options);
  EXPECT_EQ(settings.round.open->arrivals, plan::Arrivals::kPoisson);
  EXPECT_EQ(settings.warmup, 3);
}

TEST(LoadSettings, TheAddressUpToTheHostTheVersionOrTheEndpoint) {
  struct Row {
    const char* url;
    const char* base;
  };
  const Row rows[] = {
      {"http://127.0.0.1:8000/", "http://127.0.0.1:8000"},
      {"http://127.0.0.1:8000/v1", "http://127.0.0.1:8000"},
      {"http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000"},
      {"http://127.0.0.1:8000/v1/completions", "http://127.0.0.1:8000"},
      {"https://gateway.example/team-a", "https://gateway.example/team-a"},
      {"https://gateway.example/team-a/v1/", "https://gateway.example/team-a"},
      {"http://[::1]:8000", "http://[::1]:8000"},
  };
  for (const Row& row : rows) {
    LoadOptions options = Good();
    options.url = row.url;
    const LoadSettings settings = Read(options);
    EXPECT_EQ(settings.base, row.base) << row.url;
    EXPECT_EQ(settings.endpoint, std::string(row.base) + "/v1/completions") << row.url;
  }
}

TEST(LoadSettings, AChatSendsTextToItsOwnEndpoint) {
  LoadOptions options = Good();
  options.url = "http://127.0.0.1:8000/v1/chat/completions";
  options.api = "chat";
  options.stop = "natural";
  options.acceptance = "lenient";
  const LoadSettings settings = Read(options);
  EXPECT_EQ(settings.base, "http://127.0.0.1:8000");
  EXPECT_EQ(settings.endpoint, "http://127.0.0.1:8000/v1/chat/completions");
  EXPECT_EQ(settings.round.api, plan::Api::kChat);
  EXPECT_EQ(settings.round.prompts.kind, plan::PromptKind::kText);
  EXPECT_EQ(settings.round.stop, plan::OutputStop::kNatural);
  EXPECT_EQ(settings.acceptance, plan::Acceptance::kLenient);
}

TEST(LoadSettings, ErrorsSayWhatToWrite) {
  struct Row {
    std::function<void(LoadOptions&)> change;
    const char* message;
  };
  const Row rows[] = {
      {[](auto& o) { o.url = "127.0.0.1:8000"; },
       "URL: \"127.0.0.1:8000\" is no address: write http://HOST:PORT or https://HOST"},
      {[](auto& o) { o.url = "http://:8000"; }, "URL: \"http://:8000\" names no host"},
      {[](auto& o) { o.url = "http://a/?b=c"; },
       "URL: \"http://a/?b=c\" has a query or a fragment: leave them out"},
      {[](auto& o) { o.url = "https://me:secret@host"; },
       "URL: holds a name or a password, which every process of the machine can read: write "
       "--token-env or --token-file"},
      {[](auto& o) { o.url = "http://a b"; },
       "URL: \"http://a b\" has a character that an address cannot have: write it as %XX"},
      {[](auto& o) { o.url = "http://a/v1/chat/completions"; },
       "URL: \"http://a/v1/chat/completions\" is not of --api completions: write --api chat"},
      {[](auto& o) { o.api = "chats"; }, "--api: unknown \"chats\" (did you mean \"chat\"?)"},
      {[](auto& o) { o.stop = "eos"; }, "--stop: unknown \"eos\": write fixed or natural"},
      {[](auto& o) { o.acceptance = "lenien"; },
       "--acceptance: unknown \"lenien\" (did you mean \"lenient\"?)"},
      {[](auto& o) { o.model = ""; }, "--model: is empty"},
      {[](auto& o) { o.input_tokens = "1k"; },
       "--input-tokens: \"1k\" is not a whole number from 1 to 10000000"},
      {[](auto& o) { o.output_tokens = "0"; },
       "--output-tokens: \"0\" is not a whole number from 1 to 1000000"},
      {[](auto& o) { o.concurrency = "+8"; },
       "--concurrency: \"+8\" is not a whole number from 1 to 10000"},
      {[](auto& o) { o.concurrency = "99999999999999999999"; },
       "--concurrency: \"99999999999999999999\" is not a whole number from 1 to 10000"},
      {[](auto& o) { o.concurrency.reset(); },
       "--concurrency, --rate: write one of them: --concurrency 8 or --rate 2.5/s"},
      {[](auto& o) { o.rate = "2/s"; },
       "--concurrency, --rate: only one of them has a meaning: a closed or an open loop"},
      {[](auto& o) { o.concurrency.reset(), o.rate = "2"; },
       "--rate: \"2\" is not a rate above 0/s, at most 100000/s: write 2.5/s"},
      {[](auto& o) { o.concurrency.reset(), o.rate = "0/s"; },
       "--rate: \"0/s\" is not a rate above 0/s, at most 100000/s: write 2.5/s"},
      {[](auto& o) { o.concurrency.reset(), o.rate = "2/s", o.arrivals = "poison"; },
       "--arrivals: unknown \"poison\" (did you mean \"poisson\"?)"},
      {[](auto& o) { o.arrivals = "poisson"; }, "--arrivals: has a meaning only with --rate"},
      {[](auto& o) { o.requests.reset(); },
       "--requests, --duration: write one of them: --requests 64 or --duration 60s"},
      {[](auto& o) { o.duration = "60s"; },
       "--requests, --duration: only one of them has a meaning"},
      {[](auto& o) { o.requests.reset(), o.duration = "60"; },
       "--duration: \"60\" is not a duration from 1ms to 24h: write 250ms, 30s, 45min or 2h"},
      {[](auto& o) { o.stall_limit = "0s"; },
       "--stall-limit: \"0s\" is not a duration from 1ms to 24h: write 250ms, 30s, 45min or 2h"},
      {[](auto& o) { o.headers = {"X-Team"}; },
       "--header: is not 'NAME: VALUE', with a name of letters, digits and \"-\""},
      {[](auto& o) { o.headers = {"X Team: a"}; },
       "--header: is not 'NAME: VALUE', with a name of letters, digits and \"-\""},
      {[](auto& o) { o.headers = {"X-Team: a\r\nHost: b"}; },
       "--header: the value of \"X-Team\" is empty or has a control character"},
      {[](auto& o) { o.headers = {"AUTHORIZATION: Bearer secret"}; },
       "--header: \"Authorization\" in an argument can be read by every process of the machine: "
       "write --token-env or --token-file"},
      {[](auto& o) { o.headers = {"Host: other"}; },
       "--header: \"Host\" is set by the client itself"},
      {[](auto& o) { o.token_env = "A", o.token_file = "b"; },
       "--token-env, --token-file: only one of them has a meaning"},
      {[](auto& o) { o.json = "/"; }, "--json: \"/\" is there and is not a regular file"},
      {[](auto& o) { o.save_vllm = "/dev/null"; },
       "--save-vllm: \"/dev/null\" is there and is not a regular file"},
      {[](auto& o) { o.save_vllm = ""; }, "--save-vllm: names no file"},
      {[](auto& o) { o.fail_if = {"ttft.p96 > 1ms"}; },
       "--fail-if: unknown metric \"ttft.p96\" (did you mean \"ttft.p90\"?)"},
      {[](auto& o) { o.model = "", o.seed = "x"; },
       "--model: is empty\n--seed: \"x\" is not a whole number from 0 to 9223372036854775807"},
  };
  for (const Row& row : rows) {
    LoadOptions options = Good();
    row.change(options);
    const auto settings = ReadLoadOptions(options);
    ASSERT_FALSE(settings.has_value()) << row.message;
    EXPECT_EQ(settings.error().message, row.message);
    EXPECT_EQ(settings.error().kind, base::ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace upgrade_gate::cli
