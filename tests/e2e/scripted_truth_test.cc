// What the client reports, held against the server's own record of the same
// requests: twenty servers, medians within 1 % or 200 us.
//
// Both sides' processes may be taken off their cores, which is no error of the
// client: a profile whose medians are off is measured again, a few times. One that
// stays off fails, and says so where the machine was too busy to tell.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "framework/base/json.h"
#include "framework/evidence/summary.h"
#include "framework/load/curl_transport.h"
#include "framework/load/driver.h"
#include "framework/load/prime.h"
#include "tests/unit/fixtures/reference_server_process.h"

namespace upgrade_gate {
namespace {

using evidence::Metric;
using reference_server::RawClient;
using reference_server::ServerProcess;

constexpr int kAttempts = 6;
constexpr double kShare = 0.01;
constexpr double kAbsoluteMs = 0.2;

struct Server {
  std::string name;
  std::string profile;  // after its head
  plan::Api api = plan::Api::kCompletions;
  int concurrency = 1;
  int output_tokens = 16;
  int input_tokens = 64;
  plan::OutputStop stop = plan::OutputStop::kFixed;
};

std::vector<Server> Setups() {
  const auto speed = [](const char* step, const char* decode, const char* prefill) {
    return fmt::format("base_step: {}\nper_decode_seq: {}\nprefill_rate: {}tok/s\n", step, decode,
                       prefill);
  };
  const auto chat = plan::Api::kChat;
  const auto completions = plan::Api::kCompletions;
  const std::string plain = speed("3ms", "100us", "100000");
  const std::string reasoning = plain + "reasoning: {field: reasoning, tokens: 5}\n";
  const std::string natural = plain + "natural_stop: {least: 4, most: 20}\n";
  return {
      {"c1", plain},
      {"c2", plain, completions, 2},
      {"c4", plain, completions, 4},
      {"c8", plain, completions, 8},
      {"short", plain, completions, 2, 2},
      {"long", speed("2ms", "10us", "100000"), completions, 2, 60},
      {"slow_steps", speed("12ms", "0us", "100000"), completions, 2, 6},
      {"heavy_decode", speed("1ms", "1500us", "100000"), completions, 4, 8},
      {"slow_prefill", speed("3ms", "100us", "4000"), completions, 2, 8, 200},
      {"long_prompts", speed("3ms", "100us", "100000"), completions, 2, 8, 3000},
      {"batch_of_two", plain + "max_num_seqs: 2\n", completions, 4, 8},
      {"small_budget", plain + "max_num_batched_tokens: 64\n", completions, 2, 8, 300},
      {"spun_waits", plain + "precise_wait: 200us\n", completions, 2},
      {"scaled_time", speed("30ms", "1ms", "10000") + "time_scale: 0.1\n", completions, 2},
      {"natural", natural, completions, 2, 24, 64, plan::OutputStop::kNatural},
      {"chat", plain, chat, 2},
      {"chat_c8", plain, chat, 8},
      {"reasoning", reasoning, chat, 2},
      {"reasoning_c4", reasoning, chat, 4},
      {"some_empty", plain + "faults: [{kind: empty_output, every: 3}]\n", completions, 2},
  };
}

std::vector<load::PreparedRequest> RequestsOf(const Server& setup, int attempt) {
  load::RequestSettings settings;
  settings.served_name = "tiny";
  settings.api = setup.api;
  settings.output_tokens = setup.output_tokens;
  settings.stop = setup.stop;
  std::vector<load::PreparedRequest> requests;
  for (int i = 0; i < std::max(24, 6 * setup.concurrency); ++i) {
    load::Prompt prompt;
    if (setup.api == plan::Api::kChat) {
      prompt.input = std::vector<load::Message>{
          {.role = "user", .text = fmt::format("question {} of {}", i, attempt), .images = {}}};
    } else {
      load::TokenIds ids(static_cast<std::size_t>(setup.input_tokens), 5);
      ids[0] = 1000 * (attempt + 1) + i;
      prompt.tokens = setup.input_tokens;
      prompt.input = std::move(ids);
    }
    requests.push_back(load::PrepareRequest(settings, prompt).value());
  }
  return requests;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

using Medians = std::map<Metric, double>;  // ms

Medians MediansOf(std::map<Metric, std::vector<double>> values) {
  Medians medians;
  for (const auto& [metric, all] : values) medians[metric] = Median(all);
  return medians;
}

Medians Reported(const load::LoadResult& result) {
  std::map<Metric, std::vector<double>> values;
  for (const evidence::RequestRecord& record : result.requests) {
    for (const Metric metric : evidence::kAllMetrics) {
      if (const auto ms = evidence::LatencyMs(record, metric)) values[metric].push_back(*ms);
    }
  }
  return MediansOf(std::move(values));
}

// Of the requests that the client accepted.
Medians True(const load::LoadResult& result, const std::string& server_record) {
  std::map<std::string, base::Json> by_prompt;
  const auto json = base::ParseJson(server_record);
  for (const base::Json& request : json.value()["requests"]) {
    by_prompt[request["fingerprint"]] = request;
  }
  std::map<Metric, std::vector<double>> values;
  for (const evidence::RequestRecord& record : result.requests) {
    if (!record.accepted()) continue;
    const base::Json& of = by_prompt.at(record.prompt_sha256);
    const auto ms = [&](const char* from, const char* to) {
      return static_cast<double>(of[to].get<std::int64_t>() - of[from].get<std::int64_t>()) / 1e6;
    };
    values[Metric::kTtft].push_back(ms("arrival_ns", "first_text_ns"));
    values[Metric::kE2e].push_back(ms("arrival_ns", "last_token_ns"));
    values[Metric::kTpot].push_back(ms("first_token_ns", "last_token_ns") /
                                    (of["tokens"].get<double>() - 1));
  }
  return MediansOf(std::move(values));
}

// How long a free place of the loop waited for its next request to be sent: a part
// of the reported latencies that the server cannot know of.
double SentLateMs(const load::LoadResult& result) {
  std::vector<double> late;
  for (const evidence::RequestRecord& record : result.requests) {
    const base::Nanoseconds wait = *record.times.sent - *record.times.scheduled;
    late.push_back(static_cast<double>(wait.count()) / 1e6);
  }
  return Median(late);
}

std::string Differences(const Medians& reported, const Medians& truth) {
  std::string text;
  if (truth.size() != 3 || reported.size() != 3) return "a metric is missing";
  for (const auto& [metric, expected] : truth) {
    const double seen = reported.at(metric);
    if (std::abs(seen - expected) <= std::max(kAbsoluteMs, kShare * expected)) continue;
    text += fmt::format("{}: reported {:.3f} ms, truth {:.3f} ms; ", evidence::Name(metric), seen,
                        expected);
  }
  return text;
}

// Whether a thread that only computes is kept from its core.
bool MachineIsBusy() {
  const auto seconds = [](clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  };
  constexpr double kSpan = 0.3;
  const double wall = seconds(CLOCK_MONOTONIC);
  const double cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
  while (seconds(CLOCK_MONOTONIC) - wall < kSpan) continue;
  return seconds(CLOCK_THREAD_CPUTIME_ID) - cpu < 0.97 * kSpan;
}

class ScriptedTruth : public testing::TestWithParam<Server> {};

TEST_P(ScriptedTruth, MediansAreTheServersOwn) {
  const Server& setup = GetParam();
  ServerProcess server("served_name: tiny\nversion: \"1\"\nmax_model_len: 8192\n" + setup.profile);
  const std::uint16_t port = server.port();
  base::SystemClock clock;
  std::string differences;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto transport = load::MakeCurlTransport(clock, {}).value();
    const std::string url = fmt::format("http://127.0.0.1:{}", port);
    load::Transport* const transports[] = {transport.get()};
    const auto primed = load::PrimeConnections(transports, clock, url, setup.concurrency);
    ASSERT_TRUE(primed) << primed.error().message;
    load::Load loop;
    loop.url = url + std::string(load::PathOf(setup.api));
    loop.concurrency = setup.concurrency;
    const auto requests = RequestsOf(setup, attempt);
    const auto result =
        load::RunLoad(*transport, clock, loop, requests, [] { return load::StopSignal{}; });
    ASSERT_TRUE(result) << result.error().message;
    const auto accepted = std::count_if(result->requests.begin(), result->requests.end(),
                                        [](const auto& record) { return record.accepted(); });
    ASSERT_GE(accepted, setup.name == "some_empty" ? 8 : 24)
        << result->requests.front().failure.value_or(evidence::Failure{}).detail;
    RawClient client(port);
    client.Send(reference_server::Get("/upgrade_gate/requests"));
    differences = Differences(Reported(*result),
                              True(*result, reference_server::BodyOf(client.ReadResponse())));
    if (differences.empty()) return;
    differences += fmt::format("sent {:.3f} ms late", SentLateMs(*result));
  }
  if (MachineIsBusy()) FAIL() << "too busy a machine to tell: " << differences;
  FAIL() << differences;
}

INSTANTIATE_TEST_SUITE_P(Profiles, ScriptedTruth, testing::ValuesIn(Setups()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace upgrade_gate
