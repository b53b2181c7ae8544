#include "framework/cli/cli.h"

int main(int argc, char** argv) {
  return static_cast<int>(upgrade_gate::cli::Run(argc, argv));
}
