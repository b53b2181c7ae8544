#include "framework/server/line_feed.h"

namespace upgrade_gate::server {
namespace {

constexpr std::size_t kMostHeldBack = std::size_t{64} << 10;

}  // namespace

void LineFeed::Take(std::string_view bytes) {
  const std::size_t end = bytes.rfind('\n') + 1;  // npos + 1 is 0
  if (end > 0) {
    // At once: another source's line must not come in between.
    begun_ += bytes.substr(0, end);
    log_.Take(begun_);
    begun_.clear();
  }
  begun_ += bytes.substr(end);
  if (begun_.size() > kMostHeldBack) {
    log_.Take(begun_);
    begun_.clear();
  }
}

void LineFeed::Finish() {
  if (begun_.empty()) return;
  begun_ += '\n';
  log_.Take(begun_);
  begun_.clear();
}

}  // namespace upgrade_gate::server
