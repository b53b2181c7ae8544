// Reads one streaming completion response: bytes and times in, an Observation out.
//
// Pure and incremental; identical results for any split of the bytes (but for
// the times, which are those of the reads). Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "framework/load/acceptance.h"

namespace upgrade_gate::load {

struct ReaderCaps {
  std::size_t body_bytes = std::size_t{64} << 20;
  std::size_t raw_bytes = std::size_t{8} << 20;  // kept for the evidence of a failure
};

class ResponseReader {
 public:
  explicit ResponseReader(ReaderCaps caps = {});
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
  void Reset();

  bool done_seen() const;
  // Whole only after OnEnd.
  const Observation& observation() const;
  // The body as it came, up to the cap.
  const std::string& raw() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace upgrade_gate::load
