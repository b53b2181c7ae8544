// The acceptance over observations that no reader would ever make: every field
// is taken from the input.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/result.h"
#include "framework/load/acceptance.h"

namespace upgrade_gate::load {
namespace {

// Gives zeros when the input has ended.
class Source {
 public:
  explicit Source(std::string_view bytes) : bytes_(bytes) {}
  unsigned Byte() {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte;
  }
  bool Flag() { return (Byte() & 1U) != 0; }
  std::int64_t Number() { return static_cast<std::int64_t>(Byte()) - 2; }
  std::string Text() {
    const unsigned size = Byte() % 8;
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(text.size());
    return text;
  }

 private:
  std::string_view bytes_;
};

Expectation ExpectationFrom(Source& source) {
  Expectation asked;
  if (source.Flag()) asked.input_tokens = source.Number();
  asked.output_tokens = source.Number();
  asked.form = {.api = source.Flag() ? plan::Api::kChat : plan::Api::kCompletions,
                .stream = source.Flag(),
                .choices = 1 + static_cast<int>(source.Byte() % 3)};
  asked.input = source.Flag() ? InputCount::kAtLeast : InputCount::kExact;
  asked.stop = source.Flag() ? plan::OutputStop::kNatural : plan::OutputStop::kFixed;
  asked.allow_empty_output = source.Flag();
  return asked;
}

Observation ObservationFrom(Source& source) {
  const auto time = [&]() -> std::optional<base::Instant> {
    if (!source.Flag()) return std::nullopt;
    return base::Instant{} + std::chrono::nanoseconds(source.Number());
  };
  Observation seen;
  if (source.Flag()) seen.http_status = source.Flag() ? 200 : static_cast<int>(source.Number());
  seen.content_type = source.Text();
  seen.media_type_ok = source.Flag();
  if (source.Flag()) seen.retry_after = source.Text();
  seen.first_byte = time();
  seen.end = static_cast<EndKind>(source.Byte() % 8);
  seen.end_detail = source.Text();
  seen.events = source.Number();
  seen.chunks = source.Number();
  seen.text_bytes = source.Number();
  seen.tool_call_problem = source.Text();
  seen.tool_call_without_arguments = source.Flag();
  seen.token_ids = source.Number();
  seen.choices_with_output = static_cast<int>(source.Byte() % 3);
  seen.choices_finished = static_cast<int>(source.Byte() % 3);
  seen.finish_reason = source.Text();
  seen.done_seen = source.Flag();
  seen.padded_done = source.Text();
  seen.after_done = source.Text();
  seen.in_band_error = source.Text();
  seen.malformed = source.Text();
  if (source.Flag()) seen.usage = evidence::Usage{source.Number(), source.Number()};
  seen.usage_problem = source.Text();
  seen.body_head = source.Text();
  seen.unfinished = source.Text();
  return seen;
}

void Run(std::string_view bytes) {
  Source source(bytes);
  Expectation asked = ExpectationFrom(source);
  const Observation seen = ObservationFrom(source);
  const Outcome strict = Judge(asked, seen);
  const Outcome again = Judge(asked, seen);
  asked.profile = plan::Acceptance::kLenient;
  const Outcome lenient = Judge(asked, seen);

  UG_CHECK(strict.failure.has_value() == again.failure.has_value() && strict.notes == again.notes);
  if (strict.failure) {
    UG_CHECK(!strict.failure->detail.empty());
    UG_CHECK(strict.failure->kind == again.failure->kind);
    // What only the strict profile fails, the lenient one notes.
    if (!lenient.failure) UG_CHECK(lenient.notes.size() > strict.notes.size());
    return;
  }
  UG_CHECK(!lenient.failure && lenient.notes == strict.notes);
  UG_CHECK(seen.http_status == 200 && seen.media_type_ok && seen.usage.has_value());
  UG_CHECK(seen.done_seen || !asked.form.stream);
  UG_CHECK(seen.choices_with_output >= asked.form.choices || asked.allow_empty_output);
}

}  // namespace
}  // namespace upgrade_gate::load

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  upgrade_gate::load::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
