// SIGINT, SIGTERM and SIGHUP as a wish to end, asked for by the command.
#pragma once

namespace upgrade_gate::cli {

enum class SecondSignal {
  kIgnored,     // the run ends in its own time: it has a server to stop
  kEndsAtOnce,  // nothing outlives the process
};

// From here on. Also ignores SIGPIPE: a reader that has gone is a failed write.
void CatchSignals(SecondSignal second);
bool Interrupted();

}  // namespace upgrade_gate::cli
