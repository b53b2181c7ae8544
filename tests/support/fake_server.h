// A RunningServer that says what a test tells it to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/server/launcher.h"

namespace upgrade_gate::testing {

class FakeServer final : public server::RunningServer {
 public:
  std::string address = "http://127.0.0.1:8000";
  std::vector<std::string> arguments = {"server", "--port", "$PORT"};
  std::optional<server::Exit> exit;
  std::string not_ours;  // not empty: ownership cannot be proved, and why
  std::vector<std::string> lines;
  bool stopped = false;

  const std::string& url() const override { return address; }
  const std::vector<std::string>& argv() const override { return arguments; }
  std::optional<server::Exit> exited() override { return exit; }
  base::Status ProveOwnership() override {
    if (!not_ours.empty()) return base::InfrastructureError(not_ours);
    return {};
  }
  base::Result<server::Exit> Stop() override {
    stopped = true;
    return exit.value_or(server::Exit{true, "exit code 0"});
  }
  std::string log() const override {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }
  std::vector<std::string> last_log_lines(std::size_t count) const override {
    const std::size_t skip = lines.size() > count ? lines.size() - count : 0;
    return {lines.begin() + static_cast<std::ptrdiff_t>(skip), lines.end()};
  }
};

}  // namespace upgrade_gate::testing
