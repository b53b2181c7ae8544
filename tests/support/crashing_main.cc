// The command in a binary that kills itself at a named moment of a capture:
//   UPGRADE_GATE_TEST_CRASH=<moment>[:<n>]   the n-th time it comes (default 1)
#include <csignal>
#include <cstdlib>
#include <string>

#include "framework/cli/cli.h"

int main(int argc, char** argv) {
  using upgrade_gate::capture::Moment;
  std::string wanted;
  int left = 1;
  if (const char* value = std::getenv("UPGRADE_GATE_TEST_CRASH")) {
    wanted = value;
    if (const auto colon = wanted.find(':'); colon != std::string::npos) {
      left = std::atoi(wanted.c_str() + colon + 1);
      wanted.resize(colon);
    }
  }
  const auto name = [](Moment moment) -> std::string {
    switch (moment) {
      case Moment::kMidRound:
        return "mid-round";
      case Moment::kBeforeRename:
        return "before-rename";
      case Moment::kBetweenBoots:
        return "between-boots";
      case Moment::kBeforeSeal:
        return "before-seal";
    }
    return "";
  };
  return static_cast<int>(upgrade_gate::cli::Run(argc, argv, [&](Moment moment) {
    if (name(moment) == wanted && --left == 0) std::raise(SIGKILL);
  }));
}
