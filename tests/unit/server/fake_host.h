// A host made of files, and of what commands print on it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "framework/server/host.h"
#include "tests/unit/base/temp_folder.h"

namespace upgrade_gate::server {

class FakeHost {
 public:
  FakeHost() {
    reader.root = folder_.path();
    reader.run = [this](const std::vector<std::string>& argv,
                        std::chrono::milliseconds) -> base::Result<std::string> {
      ++asked;
      std::string command = argv[0];
      if (argv.size() > 1) command += " " + argv[1].substr(0, argv[1].find('='));
      const auto error = errors.find(argv[0]);
      if (error != errors.end()) return base::InfrastructureError(error->second);
      return prints[command];
    };
  }

  std::filesystem::path Path(const std::string& path) const { return folder_.path() / path; }
  void Put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(Path(path).parent_path());
    std::ofstream(Path(path), std::ios::binary) << text;
  }
  void Remove(const std::string& path) const { std::filesystem::remove_all(Path(path)); }
  // Without the folder's name, which differs from run to run.
  std::string Shown(std::string message) const {
    const std::string root = folder_.path().string();
    for (std::size_t at; (at = message.find(root)) != message.npos;) message.erase(at, root.size());
    return message;
  }

  HostReader reader;
  std::map<std::string, std::string> prints;  // "nvidia-smi --query-gpu", "dmesg"
  std::map<std::string, std::string> errors;  // by program
  int asked = 0;

 private:
  base::TempFolder folder_;
};

}  // namespace upgrade_gate::server
