// Reads one response of /v1/completions or /v1/chat/completions, a stream or one
// JSON body: bytes and times in, an Observation out.
//
// Pure and incremental; identical results for any split of the bytes (but for
// the times, which are those of the reads). Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "framework/evidence/raw_bytes.h"
#include "framework/load/acceptance.h"
#include "framework/load/sse_parser.h"

namespace upgrade_gate::load {

// What is longer ends the response as over_cap, which names the cap: our limit,
// not the server's fault.
struct ReaderCaps {
  SseCaps sse = {};
  std::size_t body_bytes = std::size_t{64} << 20;
  std::size_t raw_bytes = std::size_t{8} << 20;       // kept as evidence; more is not, silently
  std::size_t argument_bytes = std::size_t{1} << 20;  // of all tool calls, joined
  std::size_t tool_calls = 128;
  // False: every event goes through the JSON parser. The result is the same; for
  // tests that compare the two.
  bool recognise_repeats = true;
};
inline constexpr std::size_t kMaxJsonDepth = 64;  // of an event or a body; over_cap as well

class ResponseReader {
 public:
  // Raw bytes go to the spool, if there is one.
  explicit ResponseReader(ReaderCaps caps = {}, std::shared_ptr<evidence::Spool> spool = nullptr);
  ~ResponseReader();
  ResponseReader(ResponseReader&&) noexcept;
  ResponseReader& operator=(ResponseReader&&) noexcept;

  // Empty: the response has no such field.
  void OnHeaders(int status, std::string_view content_type, std::string_view retry_after);
  // False when a cap was exceeded: close the connection with EndKind::kOverCap.
  bool OnBody(std::string_view bytes, base::Instant at);
  // `detail` says more about the end; with kOverCap the cap is named by the reader.
  void OnEnd(EndKind end, std::string_view detail, base::Instant at);
  // As new, for the next response; keeps its memory.
  void Reset(const ResponseForm& form = {});

  bool done_seen() const;
  // Whole only after OnEnd. A cap that only the end of a body without a stream
  // can show makes the end kOverCap, whatever OnEnd was told.
  const Observation& observation() const;
  // The body as it came, up to the cap.
  const evidence::RawBytes& raw() const;
  evidence::RawBytes TakeRaw();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace upgrade_gate::load
