#include "framework/server/run_id.h"

#include <unistd.h>

#include <charconv>

#include "framework/base/text.h"

namespace upgrade_gate::server {
namespace {

// The number after the last "-" of `text`, which is cut off with it.
template <typename T>
bool TakeLast(std::string_view& text, T& value) {
  const std::size_t dash = text.rfind('-');
  if (dash == std::string_view::npos || dash + 1 == text.size()) return false;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + dash + 1, end, value);
  text.remove_suffix(text.size() - dash);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

}  // namespace

std::string MakeRunId(std::string_view plan_name, base::WallTime now) {
  constexpr std::size_t kNameBytes = 24;
  const auto self = ReadProcess(getpid());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  return std::string(plan_name.substr(0, kNameBytes)) + "-" + std::to_string(getpid()) + "-" +
         std::to_string(self ? self->start_time : 0) + "-" + std::to_string(seconds);
}

std::optional<Runner> RunnerOf(std::string_view run_id) {
  Runner runner;
  std::uint64_t seconds = 0;
  if (!base::IsPlainName(run_id) || !TakeLast(run_id, seconds) ||
      !TakeLast(run_id, runner.start_time) || !TakeLast(run_id, runner.pid) || runner.pid <= 1 ||
      runner.start_time == 0) {
    return std::nullopt;
  }
  return runner;
}

bool IsAlive(const Runner& runner) {
  const auto process = ReadProcess(runner.pid);
  return process && process->start_time == runner.start_time && process->alive();
}

}  // namespace upgrade_gate::server
