// What a server writes, kept as it comes: in a file up to a cap, hashed, its last
// lines at hand, every line shown to whoever watches for faults.
//
// Launchers feed it from a pipe, an engine's stream or a file. All functions are
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/digest.h"
#include "framework/base/file.h"
#include "framework/base/result.h"

namespace upgrade_gate::server {

struct LogSettings {
  // Written as the bytes come, so that a killed runner leaves it. Empty: an unnamed
  // file in memory.
  std::filesystem::path file;
  std::uint64_t cap_bytes = std::uint64_t{256} << 20;  // more is counted, not kept
  // Called for every line, without its end, on the thread that feeds, one at a
  // time; a longer line comes cut. Must not block.
  std::function<void(std::string_view line)> on_line;
  std::size_t line_cap = std::size_t{64} << 10;
};

class LogCapture {
 public:
  static base::Result<std::unique_ptr<LogCapture>> Open(LogSettings settings);

  // Never fails the server: what cannot be written to the file any more is counted
  // as not kept, and problem() says why.
  void Take(std::string_view bytes);
  // The server writes no more: a last line without an end is shown too.
  void Finish();

  struct Totals {
    std::uint64_t written = 0;  // by the server
    std::uint64_t kept = 0;     // the first so many bytes of it
    base::Sha256Hex sha256;     // of what was kept
    std::string problem;        // why less was kept than the cap allows; empty: none
  };
  Totals totals() const;
  // What was kept, then a line that tells how many bytes were not.
  std::string text() const;
  // The last lines, made visible, at most 2,000 bytes each. Of a line that
  // was overwritten with carriage returns (a progress bar), what was last to be seen.
  std::vector<std::string> last_lines(std::size_t count) const;

 private:
  LogCapture(LogSettings settings, base::Fd file);
  void Keep(std::string_view bytes);
  void ShowLines(std::string_view bytes);

  const LogSettings settings_;
  const base::Fd file_;

  std::mutex feed_mutex_;  // guards line_, which only feeding touches
  std::string line_;       // begun, without its end, at most the cap
  bool line_begun_ = false;

  mutable std::mutex mutex_;  // guards what follows
  base::Sha256 digest_;
  std::uint64_t written_ = 0;
  std::uint64_t kept_ = 0;
  std::string problem_;
  std::string tail_;
};

}  // namespace upgrade_gate::server
