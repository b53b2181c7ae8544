#include "framework/server/run_argv.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "framework/base/clock.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/evidence/limits.h"
#include "framework/server/forked_child.h"
#include "framework/server/spawn.h"

namespace upgrade_gate::server {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::milliseconds kAskEvery{100};
constexpr std::size_t kErrorTail = 2000;
constexpr std::size_t kMostIdentityBytes = 4096;

struct Stream {
  base::Fd fd;
  std::string bytes;
};

// Takes what is there; false at its end.
bool Drain(Stream& stream, std::size_t cap) {
  char piece[4096];
  for (;;) {
    const ssize_t got = read(stream.fd.get(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EAGAIN;
    const auto keep = std::min(static_cast<std::size_t>(got), cap + 1 - stream.bytes.size());
    stream.bytes.append(piece, keep);
  }
}

// The last line that says something.
std::string LastLine(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  text = text.substr(text.rfind('\n') + 1);
  return base::Shorten(base::Visible(text), 500);
}

std::string HowItEnded(int status) {
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  const char* name = sigdescr_np(WTERMSIG(status));
  return "signal " + std::to_string(WTERMSIG(status)) +
         (name == nullptr ? "" : " (" + std::string(name) + ")");
}

std::string InWords(std::chrono::milliseconds time) {
  return time.count() % 1000 == 0 ? std::to_string(time.count() / 1000) + " s"
                                  : std::to_string(time.count()) + " ms";
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

base::Result<fs::path> FindProgram(const std::string& name,
                                   const std::vector<std::string>& environment,
                                   const fs::path& working_directory) {
  if (name.find('/') != std::string::npos) {
    return (fs::absolute(working_directory) / name).lexically_normal();
  }
  constexpr std::string_view kPath = "PATH=";
  std::string_view folders;
  for (const std::string& variable : environment) {
    if (variable.starts_with(kPath)) folders = std::string_view(variable).substr(kPath.size());
  }
  for (std::string_view rest = folders; !rest.empty();) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const fs::path candidate = fs::path(rest.substr(0, end)) / name;
    rest.remove_prefix(std::min(end + 1, rest.size()));
    std::error_code error;
    if (candidate.is_absolute() && fs::is_regular_file(candidate, error) &&
        access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return base::InfrastructureError(base::Visible(name) + ": there is no such program in PATH (" +
                                   base::Shorten(base::Visible(folders), 500) + ")");
}

base::Result<std::string> RunCommand(const Command& command, const CommandLimits& limits) {
  if (command.argv.empty()) return base::UsageError("a command without an element");
  for (const std::string& element : command.argv) {
    if (element.find('\0') != std::string::npos) {
      return base::UsageError(base::Visible(element) +
                              ": holds a zero byte, which no argument can");
    }
  }
  const std::string name = base::Shorten(base::Visible(command.argv[0]), 200);
  SpawnRequest request;
  UG_ASSIGN(request.path,
            FindProgram(command.argv[0], command.environment, command.working_directory));
  request.argv = command.argv;
  request.environment = command.environment;
  request.working_directory = fs::absolute(command.working_directory);
  UG_ASSIGN(FdPair output, MakePipe());
  UG_ASSIGN(FdPair error, MakePipe());
  request.output = output.write.get();
  request.error = error.write.get();
  UG_ASSIGN(const Child child, Spawn(request, [](pid_t) -> base::Status { return {}; }));
  output.write.Close();
  error.write.Close();
  Stream out{std::move(output.read), {}};
  Stream err{std::move(error.read), {}};
  for (const Stream* stream : {&out, &err}) fcntl(stream->fd.get(), F_SETFL, O_NONBLOCK);

  const base::SystemClock clock;
  const base::Instant deadline = clock.now() + limits.time;
  std::string problem;
  bool out_open = true;
  bool err_open = true;
  for (;;) {
    pollfd entries[3] = {{child.pidfd.get(), POLLIN, 0},
                         {out_open ? out.fd.get() : -1, POLLIN, 0},
                         {err_open ? err.fd.get() : -1, POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.now());
    const auto wait = std::clamp<std::int64_t>(left.count(), 0, kAskEvery.count());
    poll(entries, 3, static_cast<int>(wait));
    if (out_open) out_open = Drain(out, limits.output_bytes);
    if (err_open) err_open = Drain(err, limits.output_bytes);
    // Only the end of a long story on stderr is shown.
    if (err.bytes.size() > 2 * kErrorTail) err.bytes.erase(0, err.bytes.size() - kErrorTail);
    if (entries[0].revents != 0) break;
    if (out.bytes.size() > limits.output_bytes) {
      problem = "wrote more than " + std::to_string(limits.output_bytes) + " bytes";
    } else if (clock.now() >= deadline) {
      problem = "did not end within " + InWords(limits.time);
    } else if (limits.interrupted()) {
      problem = "interrupted";
    }
    if (!problem.empty()) {
      kill(-child.pid, SIGKILL);
      break;
    }
  }
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (out_open) Drain(out, limits.output_bytes);
  if (err_open) Drain(err, limits.output_bytes);
  if (problem.empty() && out.bytes.size() > limits.output_bytes) {
    problem = "wrote more than " + std::to_string(limits.output_bytes) + " bytes";
  }
  if (problem.empty() && status == 0) return std::move(out.bytes);
  if (problem.empty()) problem = HowItEnded(status);
  std::string said = LastLine(err.bytes);
  if (said.empty()) said = LastLine(out.bytes);
  return base::InfrastructureError(name + ": " + problem + (said.empty() ? "" : ": " + said));
}

std::string Substitute(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t dollar = std::min(text.find('$', at), text.size());
    out += text.substr(at, dollar - at);
    if (dollar == text.size()) break;
    std::size_t end = dollar + 1;
    while (end < text.size() && IsNameCharacter(text[end])) ++end;
    const auto value = values.find(std::string(text.substr(dollar + 1, end - dollar - 1)));
    out += value == values.end() ? text.substr(dollar, end - dollar) : value->second;
    at = end;
  }
  return out;
}

namespace {

base::Result<std::map<std::string, std::string>> ParseIdentity(std::string_view text) {
  UG_ASSIGN(const base::Json json, base::ParseJson(text));
  if (!json.is_object()) return base::InfrastructureError("is not a JSON object");
  if (json.size() > evidence::kMaxIdentityValues) {
    return base::InfrastructureError("holds more than " +
                                     std::to_string(evidence::kMaxIdentityValues) + " values");
  }
  std::map<std::string, std::string> values;
  for (const auto& [name, value] : json.items()) {
    const std::string shown = base::Shorten(base::Visible(name), 80);
    if (!value.is_string()) return base::InfrastructureError("\"" + shown + "\" is not a text");
    const auto& said = value.get_ref<const std::string&>();
    if (said.size() > kMostIdentityBytes || name.size() > 200) {
      return base::InfrastructureError("\"" + shown + "\" is longer than " +
                                       std::to_string(kMostIdentityBytes) + " bytes");
    }
    values[base::Visible(name)] = base::Visible(said);
  }
  return values;
}

}  // namespace

base::Result<std::map<std::string, std::string>> AskIdentity(
    const Command& command, const std::function<bool()>& interrupted) {
  if (command.argv.empty()) return std::map<std::string, std::string>{};
  CommandLimits limits;
  limits.interrupted = interrupted;
  const auto said = RunCommand(command, limits);
  if (!said) return tl::unexpected(base::At("identity command", said.error()));
  auto values = ParseIdentity(*said);
  if (values) return values;
  return tl::unexpected(base::At(
      "identity command: " + base::Visible(command.argv[0]) + ": what it printed", values.error()));
}

}  // namespace upgrade_gate::server
