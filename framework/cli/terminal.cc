#include "framework/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace upgrade_gate::cli {
namespace {

std::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

bool IsTerminal(std::FILE* stream) {
  return isatty(fileno(stream)) == 1;
}

}  // namespace

text::Color ColorFor(std::FILE* stream) {
  const bool refused = !Environment("NO_COLOR").empty();
  return IsTerminal(stream) && !refused ? text::Color::kAlways : text::Color::kNever;
}

bool IsLive(std::FILE* stream) {
  const std::string_view terminal = Environment("TERM");
  return IsTerminal(stream) && !terminal.empty() && terminal != "dumb" && Environment("CI").empty();
}

std::size_t WidthOf(std::FILE* stream) {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

}  // namespace upgrade_gate::cli
