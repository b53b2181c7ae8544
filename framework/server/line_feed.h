// One of several sources of one log: passes on whole lines only, so that lines of
// different sources do not mix. One thread at a time.
#pragma once

#include <string>
#include <string_view>

#include "framework/server/log_capture.h"

namespace upgrade_gate::server {

class LineFeed {
 public:
  explicit LineFeed(LogCapture& log) : log_(log) {}
  // Lines of more than 64 KiB are passed on in pieces.
  void Take(std::string_view bytes);
  // The source says no more: a last line without an end is passed on with one.
  void Finish();

 private:
  LogCapture& log_;
  std::string begun_;
};

}  // namespace upgrade_gate::server
