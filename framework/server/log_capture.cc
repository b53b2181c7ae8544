#include "framework/server/log_capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "framework/base/text.h"

namespace upgrade_gate::server {
namespace {

constexpr std::size_t kTail = std::size_t{256} << 10;
constexpr std::size_t kLineLimit = 2000;

}  // namespace

LogCapture::LogCapture(LogSettings settings, base::Fd file)
    : settings_(std::move(settings)), file_(std::move(file)) {}

base::Result<std::unique_ptr<LogCapture>> LogCapture::Open(LogSettings settings) {
  const bool named = !settings.file.empty();
  base::Fd file(
      named ? open(settings.file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644)
            : memfd_create("server.log", MFD_CLOEXEC));
  if (!file.valid()) {
    return base::InfrastructureError(fmt::format("{}: cannot keep the server's log there: {}",
                                                 named ? settings.file.string() : "server log",
                                                 std::strerror(errno)));
  }
  return std::unique_ptr<LogCapture>(new LogCapture(std::move(settings), std::move(file)));
}

void LogCapture::Take(std::string_view bytes) {
  const std::lock_guard feeding(feed_mutex_);
  Keep(bytes);
  if (settings_.on_line) ShowLines(bytes);
}

void LogCapture::Finish() {
  const std::lock_guard feeding(feed_mutex_);
  if (line_begun_ && settings_.on_line) settings_.on_line(line_);
  line_.clear();
  line_begun_ = false;
}

void LogCapture::Keep(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  written_ += bytes.size();
  tail_ += bytes;
  if (tail_.size() > 2 * kTail) tail_.erase(0, tail_.size() - kTail);
  if (!problem_.empty()) return;
  bytes = bytes.substr(0, static_cast<std::size_t>(
                              std::min<std::uint64_t>(bytes.size(), settings_.cap_bytes - kept_)));
  while (!bytes.empty()) {
    const ssize_t put = write(file_.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      problem_ = fmt::format("{}: {}", settings_.file.string(), std::strerror(errno));
      return;
    }
    digest_.Update(bytes.substr(0, static_cast<std::size_t>(put)));
    kept_ += static_cast<std::uint64_t>(put);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

void LogCapture::ShowLines(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (end != bytes.npos && !line_begun_) {
      settings_.on_line(piece.substr(0, settings_.line_cap));
    } else {
      line_.append(piece.substr(0, settings_.line_cap - line_.size()));
      line_begun_ = true;
      if (end != bytes.npos) {
        settings_.on_line(line_);
        line_.clear();
        line_begun_ = false;
      }
    }
    if (end == bytes.npos) return;
    bytes.remove_prefix(end + 1);
  }
}

LogCapture::Totals LogCapture::totals() const {
  const std::lock_guard lock(mutex_);
  return {written_, kept_, digest_.Current(), problem_};
}

std::string LogCapture::text() const {
  Totals totals = this->totals();
  std::string all(totals.kept, '\0');
  std::size_t read = 0;
  while (read < all.size()) {
    const ssize_t got =
        pread(file_.get(), all.data() + read, all.size() - read, static_cast<off_t>(read));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    read += static_cast<std::size_t>(got);
  }
  all.resize(read);
  if (totals.written > read) {
    all += fmt::format(
        "\n[Upgrade Gate: {}; {} more bytes were written and not kept]\n",
        totals.problem.empty() ? "the log's cap is reached" : base::Visible(totals.problem),
        totals.written - read);
  }
  return all;
}

std::vector<std::string> LogCapture::last_lines(std::size_t count) const {
  std::string tail;
  {
    const std::lock_guard lock(mutex_);
    tail = tail_;
  }
  std::string_view rest = tail;
  if (rest.ends_with('\n')) rest.remove_suffix(1);
  std::vector<std::string> lines;
  while (lines.size() < count && !rest.empty()) {
    const std::size_t start = rest.rfind('\n') + 1;  // npos + 1 is 0
    std::string_view line = rest.substr(start);
    while (line.ends_with('\r')) line.remove_suffix(1);
    line.remove_prefix(line.rfind('\r') + 1);
    lines.push_back(base::Shorten(base::Visible(line), kLineLimit));
    rest = rest.substr(0, start > 0 ? start - 1 : 0);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

}  // namespace upgrade_gate::server
