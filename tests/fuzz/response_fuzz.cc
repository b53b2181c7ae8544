// The event-stream parser, the reader of responses and the acceptance, fed the
// same body whole, byte by byte and in random pieces; and without the recognition
// of repeated events.
//
// Input: a byte of flags ('@' is none), a byte that seeds the pieces, the body.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/random.h"
#include "framework/base/result.h"
#include "framework/load/acceptance.h"
#include "framework/load/response_reader.h"
#include "framework/load/sse_parser.h"

namespace upgrade_gate::load {
namespace {

constexpr base::Instant kAt{std::chrono::seconds(1)};
// Small, so that inputs of a few hundred bytes meet them.
constexpr ReaderCaps kCaps{.sse = {.line_bytes = 400, .event_bytes = 500},
                           .body_bytes = 2000,
                           .raw_bytes = 1000,
                           .argument_bytes = 60,
                           .tool_calls = 3};

struct Input {
  Expectation asked;
  bool other_type = false;
  std::uint64_t seed = 0;
  std::string_view body;
};

Input InputFrom(std::string_view bytes) {
  const unsigned flags = static_cast<unsigned char>(bytes[0]);
  const auto has = [&](unsigned bit) { return (flags >> bit & 1U) != 0; };
  Input input;
  input.asked.input_tokens = 8;
  input.asked.output_tokens = 4;
  input.asked.form = {.api = has(0) ? plan::Api::kChat : plan::Api::kCompletions,
                      .stream = !has(1),
                      .choices = has(2) ? 2 : 1};
  input.asked.profile = has(3) ? plan::Acceptance::kLenient : plan::Acceptance::kStrict;
  input.asked.stop = has(4) ? plan::OutputStop::kNatural : plan::OutputStop::kFixed;
  input.other_type = has(5);
  input.seed = static_cast<unsigned char>(bytes[1]);
  input.body = bytes.substr(2);
  return input;
}

std::vector<std::string_view> ByteByByte(std::string_view body) {
  std::vector<std::string_view> pieces;
  for (std::size_t i = 0; i < body.size(); ++i) pieces.push_back(body.substr(i, 1));
  return pieces;
}

std::vector<std::string_view> InPieces(std::string_view body, std::uint64_t seed) {
  base::Random random(seed);
  std::vector<std::string_view> pieces;
  while (!body.empty()) {
    const std::size_t size = 1 + random.Below(1 + random.Below(64));
    pieces.push_back(body.substr(0, size));
    body.remove_prefix(std::min(size, body.size()));
  }
  return pieces;
}

std::string Events(const std::vector<std::string_view>& pieces) {
  std::string events;
  SseParser parser(
      [&](const SseEvent& event) { events += fmt::format("{}|{}\n\n", event.type, event.data); },
      kCaps.sse);
  for (const std::string_view piece : pieces) {
    if (!parser.Feed(piece, kAt)) break;
  }
  return events + parser.over_cap() + (parser.over_cap().empty() ? parser.unfinished() : "");
}

void CheckAccepted(const Expectation& asked, const Observation& seen) {
  UG_CHECK(seen.http_status == 200 && seen.media_type_ok);
  UG_CHECK(seen.in_band_error.empty() && seen.malformed.empty() && seen.after_done.empty());
  UG_CHECK(seen.done_seen == asked.form.stream);
  UG_CHECK(seen.text_bytes + seen.reasoning_bytes + seen.tool_calls > 0);
  UG_CHECK(seen.last_token.has_value());
  UG_CHECK(seen.usage && seen.usage->prompt_tokens == 8);
  UG_CHECK(seen.usage->completion_tokens > 0);
  UG_CHECK(seen.usage->completion_tokens <= 4 * asked.form.choices);
  UG_CHECK(seen.tool_call_problem.empty());
  UG_CHECK(asked.profile == plan::Acceptance::kLenient || !seen.finish_reason.empty());
}

std::string Read(const Input& input, const std::vector<std::string_view>& pieces,
                 bool recognise_repeats = true) {
  ReaderCaps caps = kCaps;
  caps.recognise_repeats = recognise_repeats;
  ResponseReader reader(caps);
  reader.Reset(input.asked.form);
  const bool stream = input.asked.form.stream != input.other_type;
  reader.OnHeaders(200, stream ? "text/event-stream" : "application/json", "");
  EndKind end = EndKind::kComplete;
  for (const std::string_view piece : pieces) {
    if (reader.OnBody(piece, kAt)) continue;
    end = EndKind::kOverCap;
    break;
  }
  reader.OnEnd(end, "", kAt);
  const Observation& seen = reader.observation();
  const Outcome outcome = Judge(input.asked, seen);
  if (!outcome.failure) CheckAccepted(input.asked, seen);
  const std::string raw = reader.raw().Read().value();
  UG_CHECK(input.body.starts_with(raw));
  UG_CHECK(end == EndKind::kOverCap || raw == input.body.substr(0, kCaps.raw_bytes));
  return fmt::format(
      "{} {} {} | {} {} {} {} {} {} {} {} | {}{}{}{}{} | {} {}",
      outcome.failure ? evidence::Name(outcome.failure->kind) : "accepted",
      outcome.failure ? outcome.failure->detail : "", fmt::join(outcome.notes, "; "), seen.events,
      seen.chunks, seen.text_bytes, seen.reasoning_bytes, seen.reasoning_field, seen.tool_calls,
      seen.token_ids, seen.finish_reason, seen.first_byte.has_value(), seen.first_token.has_value(),
      seen.first_text.has_value(), seen.last_token.has_value(), seen.done.has_value(),
      seen.usage ? seen.usage->prompt_tokens : -1, seen.usage ? seen.usage->completion_tokens : -1);
}

void Run(std::string_view bytes) {
  if (bytes.size() < 2) return;
  const Input input = InputFrom(bytes);
  const auto single = ByteByByte(input.body);
  const auto pieces = InPieces(input.body, input.seed);
  const std::string events = Events({input.body});
  UG_CHECK(Events(single) == events);
  UG_CHECK(Events(pieces) == events);
  const std::string whole = Read(input, {input.body});
  UG_CHECK(Read(input, single) == whole);
  UG_CHECK(Read(input, pieces) == whole);
  UG_CHECK(Read(input, {input.body}, false) == whole);
}

}  // namespace
}  // namespace upgrade_gate::load

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  upgrade_gate::load::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
