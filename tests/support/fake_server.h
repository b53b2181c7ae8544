// A RunningServer that says what a test tells it to.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/server/launcher.h"

namespace upgrade_gate::testing {

class FakeServer final : public server::RunningServer {
 public:
  std::string address = "http://127.0.0.1:8000";
  std::vector<std::string> arguments = {"server", "--port", "$PORT"};
  std::optional<server::Exit> exit;
  std::string not_ours;  // not empty: ownership cannot be proved, and why
  bool stopped = false;

  void Say(const std::string& line) { log_->Take(line + "\n"); }

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
  const server::LogCapture& log() const override { return *log_; }

 private:
  std::unique_ptr<server::LogCapture> log_ = std::move(*server::LogCapture::Open({}));
};

}  // namespace upgrade_gate::testing
