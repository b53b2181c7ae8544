#include "framework/probes/readiness.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "framework/base/json.h"
#include "framework/base/random.h"
#include "framework/base/text.h"
#include "framework/load/completion_request.h"
#include "framework/load/driver.h"
#include "framework/probes/fetch.h"

namespace upgrade_gate::probes {
namespace {

using evidence::FailureKind;

constexpr std::size_t kPromptTokens = 8;
constexpr std::int64_t kOutputTokens = 4;
constexpr std::chrono::seconds kFetchLimit{10};
constexpr int kMostRejected = 10;
constexpr std::size_t kLogLines = 20;
constexpr std::size_t kNamesShown = 8;

std::string InWords(base::Nanoseconds time) {
  using namespace std::chrono;
  if (time >= minutes(1) && time % minutes(1) == nanoseconds(0)) {
    return fmt::format("{}min", time / minutes(1));
  }
  if (time < seconds(1)) return fmt::format("{}ms", time / milliseconds(1));
  return fmt::format("{}s", static_cast<double>(time / milliseconds(100)) / 10);
}

std::string Shown(std::string_view text) {
  return base::Shorten(base::Visible(text.substr(0, 4096)), 200);
}

// The ids of {"data":[{"id":"…"},…]}; an error if it has another form.
base::Result<std::vector<std::string>> ModelNames(const std::string& body) {
  UG_ASSIGN(const base::Json list, base::ParseJson(body));
  UG_ASSIGN(const base::Json* const data, base::Member(list, "data"));
  if (!data->is_array()) return base::InfrastructureError("\"data\" is not an array");
  std::vector<std::string> names;
  for (const base::Json& model : *data) {
    UG_ASSIGN(std::string name, base::StringMember(model, "id"));
    names.push_back(std::move(name));
  }
  return names;
}

std::string NamesInWords(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kNamesShown) {
      shown.push_back(fmt::format("{} more", names.size() - kNamesShown));
      break;
    }
    shown.push_back("\"" + Shown(name) + "\"");
  }
  return base::JoinList(shown);
}

bool IsRefusal(int status) {
  return status >= 400 && status < 500 && status != 408 && status != 425 && status != 429;
}

class Waiter {
 public:
  Waiter(load::Transport& transport, base::Clock& clock, server::RunningServer& server,
         const ReadinessSpec& spec, const std::function<void(const std::string&)>& heartbeat,
         const std::function<bool()>& interrupted)
      : transport_(transport),
        clock_(clock),
        server_(server),
        spec_(spec),
        heartbeat_(heartbeat),
        interrupted_(interrupted),
        start_(clock.now()),
        deadline_(start_ + spec.timeout),
        stage_began_(start_),
        next_heartbeat_(start_ + spec.heartbeat_every) {}

  base::Result<Ready> Run();

 private:
  enum class Stage { kHealth, kModels, kGeneration, kLogLine, kReady };
  // The stages that people see and limit, which hold those above.
  struct Limited {
    const char* name;
    std::optional<std::chrono::milliseconds> plan::StageLimits::*limit;
    const char* missing;
  };
  static constexpr Limited kLimited[] = {
      {"boot", &plan::StageLimits::boot, "nothing answers HTTP"},
      {"load", &plan::StageLimits::load, "the model is not served"},
      {"ready", &plan::StageLimits::ready, "no generation was accepted"}};

  // One attempt: true if the stage is passed.
  base::Result<bool> Try(Stage stage);
  base::Result<bool> TryHealth();
  base::Result<bool> TryModels();
  base::Result<bool> TryGeneration();
  load::Prompt MakePrompt() const;
  base::Result<std::string> Version();
  base::Result<Fetched> Get(const std::string& path);
  // The next of kLimited begins.
  void EndStage();
  std::optional<base::Instant> stage_deadline() const;
  base::Instant next_deadline() const {
    return std::min(deadline_, stage_deadline().value_or(deadline_));
  }
  // Beats the heart; true, with `over_` set, when waiting on is pointless.
  bool Over();
  base::Status Pause();
  std::string Stages() const;
  base::Error NotReady(std::string_view what) const;

  load::Transport& transport_;
  base::Clock& clock_;
  server::RunningServer& server_;
  const ReadinessSpec& spec_;
  const std::function<void(const std::string&)>& heartbeat_;
  const std::function<bool()>& interrupted_;
  base::Instant start_, deadline_, stage_began_, next_heartbeat_;
  std::vector<std::pair<std::string, base::Nanoseconds>> stages_;  // passed, of kLimited
  std::string health_, models_, generation_;  // what the last attempt gave; empty: not yet tried
  int rejected_ = 0;                          // generations in a row that came with HTTP 200
  std::optional<std::string> over_;
};

std::string Waiter::Stages() const {
  std::string text;
  for (const std::string* stage : {&health_, &models_, &generation_}) {
    if (stage->empty()) continue;
    if (!text.empty()) text += "; ";
    text += *stage;
  }
  return text.empty() ? "nothing was tried yet" : text;
}

base::Error Waiter::NotReady(std::string_view what) const {
  std::string text = fmt::format("{}: {}\n  argv:", what, Stages());
  for (const std::string& argument : server_.argv()) text += " " + base::Visible(argument);
  const auto exit = server_.exited();
  text += "\n  exit: " + (exit ? base::Visible(exit->description) : std::string("still running"));
  const auto lines = server_.log().last_lines(kLogLines);
  text += lines.empty() ? "\n  log: empty" : fmt::format("\n  log, last {} lines:", lines.size());
  for (const std::string& line : lines) text += "\n    " + base::Visible(line);
  return {base::ErrorKind::kInfrastructure, std::move(text)};
}

void Waiter::EndStage() {
  const base::Instant now = clock_.now();
  stages_.emplace_back(kLimited[stages_.size()].name, now - stage_began_);
  stage_began_ = now;
}

std::optional<base::Instant> Waiter::stage_deadline() const {
  if (stages_.size() == std::size(kLimited)) return std::nullopt;
  const auto limit = spec_.limits.*kLimited[stages_.size()].limit;
  if (!limit) return std::nullopt;
  return stage_began_ + *limit;
}

bool Waiter::Over() {
  if (over_) return true;
  const base::Instant now = clock_.now();
  const bool exited = server_.exited().has_value();
  if (exited) server_.CatchUpLog();
  if (std::string fault = spec_.fault(); !fault.empty()) {
    over_ = fmt::format("server gave up {} after its start, before it was ready: {}",
                        InWords(now - start_), fault);
  } else if (exited) {
    over_ =
        fmt::format("server exited {} after its start, before it was ready", InWords(now - start_));
  } else if (interrupted_ && interrupted_()) {
    over_ = "interrupted while waiting for the server";
  } else if (now >= deadline_) {
    over_ = "server not ready after " + InWords(spec_.timeout);
  } else if (const auto limit = stage_deadline(); limit && now >= *limit) {
    const Limited& stage = kLimited[stages_.size()];
    over_ = fmt::format("server not ready: the stage \"{}\" is not over after its {}: {}",
                        stage.name, InWords(*limit - stage_began_), stage.missing);
  } else if (now >= next_heartbeat_) {
    next_heartbeat_ = now + spec_.heartbeat_every;
    if (heartbeat_) {
      const auto last = server_.log().last_lines(1);
      heartbeat_(fmt::format("waiting for the server, {} of {}: {}{}", InWords(now - start_),
                             InWords(spec_.timeout), Stages(),
                             last.empty() ? "" : "; its log: " + Shown(last.front())));
    }
  }
  return over_.has_value();
}

base::Status Waiter::Pause() {
  const base::Instant until = clock_.now() + spec_.retry_every;
  while (!Over() && clock_.now() < until) {
    UG_TRY(transport_.Poll(std::min({until, next_deadline(), clock_.now() + kAskEvery})));
  }
  return {};
}

base::Result<Fetched> Waiter::Get(const std::string& path) {
  return Fetch(transport_, clock_, server_.url() + path,
               std::min(next_deadline(), clock_.now() + kFetchLimit), [this] { return Over(); });
}

base::Result<bool> Waiter::TryHealth() {
  UG_ASSIGN(const Fetched fetched, Get("/health"));
  if (over_ && !health_.empty()) return false;        // the attempt that was cut off says less
  if (fetched.status && stages_.empty()) EndStage();  // boot
  health_ = fetched.status ? fmt::format("/health answered {}", *fetched.status)
                           : "/health: " + fetched.problem;
  return fetched.status == 200;
}

base::Result<bool> Waiter::TryModels() {
  UG_ASSIGN(const Fetched fetched, Get("/v1/models"));
  if (over_ && !models_.empty()) return false;
  if (!fetched.status) {
    models_ = "/v1/models: " + fetched.problem;
    return false;
  }
  if (*fetched.status != 200) {
    models_ = fmt::format("/v1/models answered {}: {}", *fetched.status, Shown(fetched.body));
    if (*fetched.status == 401 || *fetched.status == 403) {
      over_ = "server asks for a key that the plan does not give";
    }
    return false;
  }
  const auto names = ModelNames(fetched.body);
  if (!names) {
    models_ = fmt::format("/v1/models is not a list of models ({})",
                          base::Visible(names.error().message));
    return false;
  }
  if (names->empty()) {
    models_ = "/v1/models lists no model";
    return false;
  }
  models_ = "/v1/models lists " + NamesInWords(*names);
  if (std::find(names->begin(), names->end(), spec_.served_name) != names->end()) return true;
  models_ += fmt::format(", not \"{}\"{}", Shown(spec_.served_name),
                         base::DidYouMean(spec_.served_name, *names));
  over_ = "server serves other models than the plan names";
  return false;
}

// Token ids where the load is of them too; otherwise a text, whose length is the
// server's to say.
load::Prompt Waiter::MakePrompt() const {
  if (spec_.api == plan::Api::kChat) {
    return {.input = std::vector<load::Message>{
                {.role = "user", .text = "Count from one to ten.", .images = {}}}};
  }
  if (spec_.prompts.kind != plan::PromptKind::kSyntheticTokens) {
    return {.input = std::string("Count from one to ten: one, two,")};
  }
  base::Random random(spec_.prompts.seed, "readiness");
  load::TokenIds ids;
  while (ids.size() < kPromptTokens) {
    const std::int64_t id =
        spec_.prompts.first_id +
        static_cast<std::int64_t>(random.Below(static_cast<std::uint64_t>(spec_.prompts.id_count)));
    const auto& excluded = spec_.prompts.excluded_ids;
    if (!std::binary_search(excluded.begin(), excluded.end(), id)) ids.push_back(id);
  }
  return {.input = std::move(ids), .tokens = static_cast<std::int64_t>(kPromptTokens)};
}

base::Result<bool> Waiter::TryGeneration() {
  const load::RequestSettings settings{.served_name = spec_.served_name,
                                       .sampling = spec_.sampling,
                                       .api = spec_.api,
                                       .output_tokens = kOutputTokens,
                                       .acceptance = spec_.acceptance};
  UG_ASSIGN(const load::PreparedRequest request, load::PrepareRequest(settings, MakePrompt()));
  load::Load load;
  load.url = server_.url() + std::string(load::PathOf(settings.api));
  // The first generation may compile kernels for minutes: only our own deadline,
  // which Over() watches, ends it.
  load.request_timeout = load.stall_limit = spec_.timeout + std::chrono::minutes(1);
  if (generation_.empty()) generation_ = "generation: no answer yet";
  UG_ASSIGN(const load::LoadResult result,
            load::RunLoad(transport_, clock_, load, {request}, [this] {
              return Over() ? load::StopSignal{evidence::StopReason::kInterrupted, *over_}
                            : load::StopSignal{};
            }));
  if (result.requests.empty()) return false;  // over
  const evidence::RequestRecord& record = result.requests.front();
  if (record.accepted()) {
    generation_ = "generation: accepted";
    return true;
  }
  generation_ = fmt::format("generation: {} ({})", evidence::Name(record.failure->kind),
                            record.failure->detail);
  const FailureKind kind = record.failure->kind;
  if (kind == FailureKind::kHttpStatus && IsRefusal(*record.http_status)) {
    over_ = "server refuses the request";
  }
  if (kind == FailureKind::kHttpStatus || kind == FailureKind::kTransport) {
    rejected_ = 0;
  } else if (++rejected_ == kMostRejected) {
    over_ = fmt::format("server is up, but {} generations in a row were not acceptable", rejected_);
  }
  return false;
}

base::Result<bool> Waiter::Try(Stage stage) {
  switch (stage) {
    case Stage::kHealth:
      return TryHealth();
    case Stage::kModels:
      return TryModels();
    case Stage::kGeneration:
      return TryGeneration();
    case Stage::kLogLine:
      if (spec_.log_ready()) return true;
      generation_ = "generation: accepted, but the line that the log rules wait for has not come";
      return false;
    case Stage::kReady:
      break;
  }
  return true;
}

base::Result<std::string> Waiter::Version() {
  UG_ASSIGN(const Fetched fetched, Get("/version"));
  if (fetched.status != 200) return std::string();
  const auto json = base::ParseJson(fetched.body);
  if (!json) return std::string();
  const auto version = base::StringMember(*json, "version");
  return version ? Shown(*version) : std::string();
}

base::Result<Ready> Waiter::Run() {
  for (Stage stage = Stage::kHealth; stage != Stage::kReady;) {
    if (Over()) return tl::unexpected(NotReady(*over_));
    UG_ASSIGN(const bool passed, Try(stage));
    if (passed) {
      if (stage == Stage::kModels || stage == Stage::kLogLine) EndStage();
      stage = static_cast<Stage>(static_cast<int>(stage) + 1);
    } else {
      UG_TRY(Pause());
    }
  }
  Ready ready;
  ready.after = clock_.now() - start_;
  ready.stages = stages_;
  if (const base::Status owned = server_.ProveOwnership(); !owned) {
    return tl::unexpected(NotReady("an answer came, but not provably from the server under test: " +
                                   owned.error().message));
  }
  UG_ASSIGN(ready.version, Version());
  return ready;
}

}  // namespace

base::Result<Ready> WaitUntilReady(load::Transport& transport, base::Clock& clock,
                                   server::RunningServer& server, const ReadinessSpec& spec,
                                   const std::function<void(const std::string&)>& heartbeat,
                                   const std::function<bool()>& interrupted) {
  return Waiter(transport, clock, server, spec, heartbeat, interrupted).Run();
}

}  // namespace upgrade_gate::probes
