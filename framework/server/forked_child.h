// What a freshly forked child does before exec. The parent may have other
// threads, so everything here is async-signal-safe: no allocation, no locks.
#pragma once

#include <signal.h>

#include "framework/base/file.h"
#include "framework/base/result.h"

namespace upgrade_gate::server {

enum class ChildStage : int { kStreams, kDescriptors, kDirectory, kFork, kExec };

// What a child that cannot go on tells its parent through a close-on-exec pipe.
struct ChildFailure {
  ChildStage stage = ChildStage::kExec;
  int error = 0;  // errno
};

// Every signal back to its default action and unblocked. The parent blocks all
// signals around fork, so that no handler of it runs in the child.
void ResetSignals();

// Writes the failure with the present errno and ends the child.
[[noreturn]] void FailChild(int report, ChildStage stage);

// Parent's side: blocks every signal of this thread for the object's life.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Parent's side: the same open file at a close-on-exec descriptor of at least
// 10, so that the child's dup2 to low numbers cannot overwrite a source.
base::Result<base::Fd> MoveHigh(base::Fd fd);

struct FdPair {
  base::Fd read;  // of a pipe; either end of a socket pair
  base::Fd write;
};
base::Result<FdPair> MakePipe();
// `type`: SOCK_STREAM or SOCK_SEQPACKET. Sockets rather than pipes where a dead
// peer must be an error (MSG_NOSIGNAL) and not a signal.
base::Result<FdPair> MakeSocketPair(int type);

// Reads the child's report until exec or exit closes it; false if it has none.
bool ReadChildFailure(int report, ChildFailure& failure);

}  // namespace upgrade_gate::server
