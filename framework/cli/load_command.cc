#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include "fixtures/prompts/corpus.h"
#include "fixtures/prompts/prompt_source.h"
#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/random.h"
#include "framework/base/text.h"
#include "framework/cli/commands.h"
#include "framework/cli/load_json.h"
#include "framework/cli/load_progress.h"
#include "framework/cli/load_settings.h"
#include "framework/cli/signals.h"
#include "framework/cli/terminal.h"
#include "framework/evidence/limits.h"
#include "framework/load/curl_transport.h"
#include "framework/load/driver.h"
#include "framework/load/file_limit.h"
#include "framework/load/prime.h"
#include "framework/load/schedule.h"
#include "framework/load/shards.h"
#include "framework/probes/server_tokenizer.h"
#include "reports/text/load_text.h"

namespace upgrade_gate::cli {
namespace {

using base::ExitCode;
using base::Result;
using evidence::Phase;
using evidence::RequestRecord;

constexpr const char* kInterrupted = "interrupted";
constexpr double kBytesAToken = 4.5;  // of plain English, by common tokenizers

std::string ShowDuration(std::chrono::nanoseconds time) {
  return fmt::format("{:.4g} s", std::chrono::duration<double>(time).count());
}

// 32 bits, so that every reader of JSON has it exactly.
std::uint64_t FreshSeed() {
  return std::random_device()() & 0xffffffffU;
}

// Requests for a closed loop of that duration: more than will be sent. Four times
// as many as if all went as fast as the fastest of the warm-up, which may have met
// a cold server, and never few, as far as memory goes.
int EnoughRequests(const LoadSettings& settings, const std::vector<RequestRecord>& warmup) {
  constexpr double kMargin = 4;
  constexpr double kFew = 10'000, kFewBytes = 64 << 20, kMostBytes = 1 << 30;  // of all bodies
  constexpr double kBytesAnId = 6, kOtherBytes = 512;
  const double body = kOtherBytes + kBytesAnId * static_cast<double>(settings.round.input_tokens);
  // Text is made by asking the server, which takes its time.
  const bool cheap = settings.round.prompts.kind == plan::PromptKind::kSyntheticTokens;
  double wanted = cheap ? std::min(kFew, kFewBytes / body) : 0;
  const double duration = std::chrono::duration<double>(*settings.duration).count();
  for (const RequestRecord& request : warmup) {
    const base::Nanoseconds took =
        request.times.closed.value_or(base::Nanoseconds::max()) - *request.times.scheduled;
    wanted = std::max(wanted, kMargin * settings.round.concurrency * duration /
                                  std::chrono::duration<double>(took).count());
  }
  wanted = std::min({wanted, kMostBytes / body, static_cast<double>(evidence::kMaxRequests)});
  return std::max(settings.round.concurrency, static_cast<int>(wanted));
}

class LoadRun {
 public:
  LoadRun(const LoadSettings& settings, base::Clock& clock)
      : settings_(settings), clock_(clock), round_(settings.round) {
    test_.seed = settings.seed.value_or(FreshSeed());
    round_.prompts.seed = test_.seed;
    test_.input = "synthetic token ids";
  }

  // Measures until all is measured or the user has had enough.
  base::Status Run() {
    UG_TRY(MakeTransports());
    test_.started_at = base::FormatUtc(clock_.wall());
    PlanRounds();
    if (round_.api == plan::Api::kChat) FindTokenizer();
    UG_TRY(WarmUp());
    for (int number = 1; number <= settings_.rounds && test_.incomplete.empty(); ++number) {
      UG_TRY(Measure(number));
    }
    return CheckReached(Phase::kFormal);
  }

  const LoadTest& test() const { return test_; }
  evidence::LoadNumbers Numbers() const {
    return evidence::SummarizeLoad(test_.rounds, test_.warmup, planned_);
  }

 private:
  base::Status MakeTransports() {
    load::CurlOptions options;
    options.headers = settings_.headers;
    options.ca_file = settings_.ca_file;
    if (settings_.token_env) {
      UG_ASSIGN(options.bearer_token, load::BearerTokenFromEnvironment(*settings_.token_env));
    }
    if (settings_.token_file) {
      UG_ASSIGN(options.bearer_token, load::BearerTokenFromFile(*settings_.token_file));
    }
    token_ = options.bearer_token;
    const int most = settings_.round.most_in_flight();
    UG_TRY(load::RaiseFileLimit(most));
    options.max_connections = std::min(most, load::kStreamsAShard);
    for (std::size_t i = 0; i < load::ShardsFor(most); ++i) {
      UG_ASSIGN(auto transport, load::MakeCurlTransport(clock_, options));
      transports_.push_back(transport.get());
      owned_.push_back(std::move(transport));
    }
    tokenizer_.emplace(*transports_.front(), clock_, settings_.base, settings_.model, Interrupted);
    return {};
  }

  // An open loop's arrivals are known before the first of them.
  void PlanRounds() {
    if (settings_.round.requests > 0) planned_ = settings_.rounds * settings_.round.requests;
    if (!settings_.round.open) return;
    const plan::OpenLoop& open = *settings_.round.open;
    int planned = 0;
    for (int number = 1; number <= settings_.rounds; ++number) {
      int count = settings_.round.requests;
      if (settings_.duration) {
        // Far more than will arrive in it.
        const double mean =
            open.rate.value * std::chrono::duration<double>(*settings_.duration).count();
        count = static_cast<int>(std::min(mean + 10 * std::sqrt(mean) + 20,
                                          static_cast<double>(evidence::kMaxRequests)));
      }
      auto schedule = load::MakeSchedule(open, test_.seed, fmt::format("round {}", number), count);
      if (settings_.duration) {
        std::erase_if(schedule, [&](base::Nanoseconds at) { return at >= *settings_.duration; });
      }
      planned += static_cast<int>(schedule.size());
      schedules_.push_back(std::move(schedule));
    }
    planned_ = planned;
  }

  // A server that cannot count gets texts of about that length.
  void FindTokenizer() {
    const auto tokens = tokenizer_->Encode("one two three", load::SpecialTokens::kLeaveOut);
    counted_ = tokens.has_value();
    test_.input = counted_ ? "English text, counted by the server's /tokenize"
                           : fmt::format(
                                 "about as many, English text of {} bytes a token, since "
                                 "the server cannot count: {}",
                                 kBytesAToken, tokens.error().message);
  }

  std::vector<load::Prompt> UncountedTexts(Phase phase, int round, int count) const {
    std::vector<load::Prompt> prompts;
    for (int i = 0; i < count; ++i) {
      base::Random random(test_.seed,
                          fmt::format("load/{}/{}/{}", evidence::Name(phase), round, i));
      const auto bytes =
          static_cast<std::size_t>(kBytesAToken * static_cast<double>(round_.input_tokens));
      // Its number comes first: a prefix cache has no use for it.
      std::string text = fmt::format("{:016x}. ", random.Next());
      text += prompts::CorpusText(random, bytes);
      text.resize(std::max(bytes, text.find(' ')));
      prompts.push_back({.input = std::vector<load::Message>{
                             {.role = "user", .text = std::move(text), .images = {}}}});
    }
    return prompts;
  }

  Result<std::vector<load::PreparedRequest>> Prepare(Phase phase, int round, int count) {
    std::vector<load::Prompt> prompts;
    if (counted_) {
      UG_ASSIGN(prompts, source_.Make(round_, phase, round, count, *tokenizer_));
    } else {
      prompts = UncountedTexts(phase, round, count);
    }
    const load::RequestSettings settings{.served_name = settings_.model,
                                         .sampling = round_.sampling,
                                         .api = round_.api,
                                         .output_tokens = round_.output_tokens,
                                         .stop = round_.stop,
                                         .acceptance = settings_.acceptance};
    std::vector<load::PreparedRequest> requests;
    for (const load::Prompt& prompt : prompts) {
      UG_ASSIGN(load::PreparedRequest request, load::PrepareRequest(settings, prompt));
      requests.push_back(std::move(request));
    }
    return requests;
  }

  load::Load LoadOf(load::Progress& progress) const {
    load::Load load;
    load.url = settings_.endpoint;
    load.concurrency = settings_.round.most_in_flight();
    load.request_timeout = settings_.request_timeout;
    load.stall_limit = settings_.stall_limit;
    load.redact = token_;
    load.caps.raw_bytes = 0;  // nobody reads them
    load.keep_gaps = true;
    load.progress = &progress;
    return load;
  }

  static load::StopSignal AskToStop() {
    if (!Interrupted()) return {};
    return {evidence::StopReason::kInterrupted, kInterrupted};
  }

  base::Status WarmUp() {
    if (settings_.warmup == 0) return {};
    load::Progress progress;
    load::Load load = LoadOf(progress);
    load.concurrency = std::min(settings_.warmup, settings_.round.early_in_flight());
    load.keep_gaps = false;
    UG_ASSIGN(const auto requests, Prepare(Phase::kWarmup, 1, settings_.warmup));
    const LoadProgress shown(clock_, progress,
                             {.part = "warm-up",
                              .planned = settings_.warmup,
                              .lasts = {},
                              .elapsed = {},
                              .chunks_per_s = {}});
    UG_ASSIGN(load::LoadResult result,
              load::RunLoad(transports_, clock_, load, requests, AskToStop));
    test_.warmup = std::move(result.requests);
    if (result.stopped != evidence::StopReason::kNone) {
      test_.incomplete = "interrupted in the warm-up";
      return {};
    }
    return CheckReached(Phase::kWarmup);
  }

  base::Status Measure(int number) {
    const plan::Case& round = settings_.round;
    load::Progress progress;
    load::Load load = LoadOf(progress);
    int count = round.requests;
    if (round.open) {
      load.schedule = schedules_[static_cast<std::size_t>(number - 1)];
      count = static_cast<int>(load.schedule->size());
    } else if (settings_.duration) {
      load.duration = settings_.duration;
      count = EnoughRequests(settings_, test_.warmup);
    }
    UG_ASSIGN(const auto requests, Prepare(Phase::kFormal, number, count));
    UG_TRY(load::PrimeConnections(transports_, clock_, settings_.base, round.early_in_flight()));
    std::optional<std::int64_t> planned;
    if (planned_) planned = count;
    evidence::LoadRound measured;
    measured.record.started_at = base::FormatUtc(clock_.wall());
    Result<load::LoadResult> result;
    {
      const LoadProgress shown(clock_, progress,
                               {.part = fmt::format("round {}/{}", number, settings_.rounds),
                                .planned = planned,
                                .lasts = load.duration,
                                .elapsed = {},
                                .chunks_per_s = {}});
      result = load::RunLoad(transports_, clock_, load, requests, AskToStop);
    }
    if (!result) return tl::unexpected(result.error());
    evidence::RoundRecord& record = measured.record;
    record.case_name = round.name;
    record.round = number;
    record.planned = planned_ ? count : static_cast<int>(result->requests.size());
    record.concurrency = round.concurrency;
    record.duration = result->duration;
    record.stopped = result->stopped;
    record.client = result->client;
    record.requests = std::move(result->requests);
    measured.gaps_ms = std::move(result->gaps_ms);
    if (record.stopped != evidence::StopReason::kNone) {
      test_.incomplete =
          fmt::format("interrupted in round {} of {}: what was in flight is not counted", number,
                      settings_.rounds);
    } else if (load.duration && record.requests.size() == requests.size()) {
      test_.incomplete = fmt::format(
          "round {} sent all of the {} requests that were prepared in {} of {}: write --requests",
          number, requests.size(), ShowDuration(record.duration), ShowDuration(*load.duration));
    }
    test_.rounds.push_back(std::move(measured));
    return {};
  }

  // A server that never answered a request was not measured.
  base::Status CheckReached(Phase phase) const {
    std::vector<RequestRecord> all = test_.warmup;
    if (phase == Phase::kFormal) {
      for (const evidence::LoadRound& round : test_.rounds) {
        all.insert(all.end(), round.record.requests.begin(), round.record.requests.end());
      }
    }
    const auto unreached = [](const RequestRecord& request) {
      return request.failure && request.failure->kind == evidence::FailureKind::kTransport &&
             !request.http_status;
    };
    if (all.empty() || !std::all_of(all.begin(), all.end(), unreached)) return {};
    return base::InfrastructureError(
        fmt::format("{}: none of {} requests was answered: {}; is the server there?",
                    settings_.endpoint, all.size(), all.front().failure->detail));
  }

  const LoadSettings& settings_;
  base::Clock& clock_;
  plan::Case round_;  // with the seed
  const plan::ResolvedPlan no_plan_;
  prompts::PromptSource source_{no_plan_, {}};
  std::optional<probes::ServerTokenizer> tokenizer_;
  bool counted_ = true;  // prompts are of an exact number of tokens
  LoadTest test_;
  std::optional<int> planned_;
  std::vector<std::vector<base::Nanoseconds>> schedules_;  // by round, of an open loop
  std::string token_;
  std::vector<std::unique_ptr<load::Transport>> owned_;
  std::vector<load::Transport*> transports_;
};

std::string Plural(int count, const char* what) {
  return fmt::format("{} {}{}", base::WithThousands(count), what, count == 1 ? "" : "s");
}

std::string DescribeLoad(const LoadSettings& settings) {
  const plan::Case& round = settings.round;
  const std::string how = round.open
                              ? fmt::format("{} requests/s, {} arrivals", round.open->rate.value,
                                            plan::Name(round.open->arrivals))
                              : Plural(round.concurrency, "request") + " in flight";
  const std::string long_ =
      settings.duration ? ShowDuration(*settings.duration) : Plural(round.requests, "request");
  return fmt::format("{}; {} of {}", how, Plural(settings.rounds, "round"), long_);
}

struct Decided {
  gates::Decision decision = gates::Decision::kAccept;
  std::string reason;
};

Decided Decide(const LoadTest& test, const evidence::LoadNumbers& numbers,
               const std::vector<gates::FailIfResult>& conditions) {
  std::vector<std::string> hold, undecided;
  for (const gates::FailIfResult& condition : conditions) {
    if (condition.verdict == gates::Verdict::kFail) hold.push_back(condition.expression);
    if (condition.verdict == gates::Verdict::kInconclusive) {
      undecided.push_back(condition.expression);
    }
  }
  Decided decided;
  if (!hold.empty()) {
    decided = {gates::Decision::kReject,
               fmt::format("{} of {} {}: {}", hold.size(),
                           Plural(static_cast<int>(conditions.size()), "condition"),
                           hold.size() == 1 ? "holds" : "hold", fmt::join(hold, "; "))};
  } else if (!numbers.client_valid()) {
    decided = {gates::Decision::kInconclusive,
               "the load was not what was asked for, or the client hurt its numbers"};
  } else if (numbers.succeeded() == 0) {
    decided = {gates::Decision::kInconclusive, "no request succeeded: nothing was measured"};
  } else if (conditions.empty()) {
    decided.reason = "measured; no --fail-if was given";
  } else {
    decided.reason =
        fmt::format("none of {} holds", Plural(static_cast<int>(conditions.size()), "condition"));
  }
  if (!test.incomplete.empty()) decided.reason = test.incomplete + "; so far " + decided.reason;
  return decided;
}

// What an earlier run left must not be taken for this one's.
base::Status RemoveOld(const std::optional<std::string>& path) {
  if (!path || *path == "-") return {};
  std::error_code error;
  std::filesystem::remove(*path, error);
  if (error) {
    return base::InfrastructureError(
        fmt::format("{}: cannot remove: {}", base::Visible(*path), error.message()));
  }
  return {};
}

}  // namespace

Result<ExitCode> RunLoadTest(const LoadOptions& options) {
  UG_ASSIGN(const LoadSettings settings, ReadLoadOptions(options));
  UG_TRY(RemoveOld(settings.json));
  UG_TRY(RemoveOld(settings.save_vllm));
  CatchSignals(SecondSignal::kEndsAtOnce);
  base::SystemClock clock;
  LoadRun run(settings, clock);
  UG_TRY(run.Run());
  const LoadTest& test = run.test();
  const evidence::LoadNumbers numbers = run.Numbers();
  if (numbers.counts.requests == 0) {
    return base::Fail(base::ErrorKind::kNothingRan,
                      test.incomplete.empty()
                          ? "nothing was sent: no request arrives within the duration at this rate"
                          : test.incomplete + ": nothing was measured");
  }
  std::vector<gates::FailIfResult> conditions;
  for (const gates::FailIf& condition : settings.fail_if) {
    conditions.push_back(gates::Evaluate(condition, numbers));
  }
  const Decided decided = Decide(test, numbers, conditions);

  text::LoadPage page;
  page.url = settings.endpoint;
  page.model = settings.model;
  page.load = DescribeLoad(settings);
  page.input = fmt::format("{} tokens, seed {}: {}",
                           base::WithThousands(settings.round.input_tokens), test.seed, test.input);
  const bool natural = settings.round.stop == plan::OutputStop::kNatural;
  page.output = fmt::format("{}{} tokens{}", natural ? "at most " : "",
                            base::WithThousands(settings.round.output_tokens),
                            settings.acceptance == plan::Acceptance::kLenient
                                ? "; lenient: harmless irregularities are not counted"
                                : "");
  page.started_at = test.started_at;
  page.incomplete = test.incomplete;
  page.numbers = numbers;
  page.conditions = conditions;
  page.decision = decided.decision;
  page.reason = decided.reason;
  std::FILE* const out = settings.json == "-" ? stderr : stdout;
  fmt::print(out, "{}", text::RenderLoad(page, ColorFor(out)));

  if (settings.json) {
    const std::string json = WriteLoadJson(settings, test, numbers, conditions);
    if (settings.json == "-") {
      fmt::print("{}", json);
    } else {
      UG_TRY(base::WriteFileAtomically(*settings.json, json));
    }
  }
  if (settings.save_vllm) {
    UG_TRY(base::WriteFileAtomically(*settings.save_vllm, WriteVllmResult(settings, test)));
  }
  if (!test.incomplete.empty()) return ExitCode::kInfrastructure;
  return gates::ExitCodeOf(decided.decision);
}

}  // namespace upgrade_gate::cli
