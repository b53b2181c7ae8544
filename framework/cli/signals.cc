#include "framework/cli/signals.h"

#include <atomic>
#include <csignal>

namespace upgrade_gate::cli {
namespace {

std::atomic<bool> g_interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // it is set by a signal handler

void OnSignal(int) {
  g_interrupted = true;
}

}  // namespace

void CatchSignals(SecondSignal second) {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  if (second == SecondSignal::kEndsAtOnce) {
    // A result that is being written is written on.
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_IGN;
  action.sa_flags = 0;
  sigaction(SIGPIPE, &action, nullptr);
}

bool Interrupted() {
  return g_interrupted;
}

}  // namespace upgrade_gate::cli
