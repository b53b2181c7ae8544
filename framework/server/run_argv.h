// Running one command of the user to its end: never a shell, a clean environment,
// caps on its time and its output.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/result.h"

namespace upgrade_gate::server {

struct Command {
  // The first element is a path if it has a "/" (relative to the working folder),
  // otherwise looked up in the environment's PATH.
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"; nothing else is passed on
  std::filesystem::path working_directory;
};

struct CommandLimits {
  std::chrono::milliseconds time = std::chrono::seconds(60);
  std::size_t output_bytes = std::size_t{64} << 10;
  std::function<bool()> interrupted = [] { return false; };  // asked ten times a second
};

// What it wrote to standard output; it has ended with exit code 0, and whatever it
// left in the background lives on. At a limit its process group is killed. An error
// (kInfrastructure) is of one line: "kubectl: exit code 1: the last line of stderr".
base::Result<std::string> RunCommand(const Command& command, const CommandLimits& limits);

// The program that `name` means, absolute. An error says where it was looked for.
base::Result<std::filesystem::path> FindProgram(const std::string& name,
                                                const std::vector<std::string>& environment,
                                                const std::filesystem::path& working_directory);

// `text` with values in place of `$NAME`; a name ends at the first character that
// could not be part of one, so that $PORTS stays. What is not in `values` stays too.
std::string Substitute(std::string_view text, const std::map<std::string, std::string>& values);

// What the command prints about a server: one JSON object of texts, at most 1,000 of
// 4 KiB each. Nothing where `command` has no argv.
base::Result<std::map<std::string, std::string>> AskIdentity(
    const Command& command, const std::function<bool()>& interrupted);

}  // namespace upgrade_gate::server
