#include "framework/plan/launch_argv.h"

namespace upgrade_gate::plan {

std::vector<std::string> SpliceCommand(const std::vector<std::string>& argv,
                                       const std::vector<std::string>& command) {
  std::vector<std::string> spliced;
  for (const std::string& element : argv) {
    if (element == "$COMMAND") {
      spliced.insert(spliced.end(), command.begin(), command.end());
    } else {
      spliced.push_back(element);
    }
  }
  return spliced;
}

std::vector<std::string> LaunchArgv(const ServerSettings& server, const Arm& arm) {
  switch (server.launcher) {
    case LauncherKind::kProcess: {
      std::vector<std::string> argv;
      if (arm.executable) argv.push_back(arm.executable->path);
      argv.insert(argv.end(), arm.command.begin(), arm.command.end());
      return argv;
    }
    case LauncherKind::kDocker:
      return arm.command;
    case LauncherKind::kCommand:
      return SpliceCommand(server.command_launcher.start, arm.command);
    case LauncherKind::kEndpoint:
      break;
  }
  return {};
}

}  // namespace upgrade_gate::plan
