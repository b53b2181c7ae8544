// Process descriptors by system call: glibc 2.36 declares its wrappers without
// C linkage, and older ones have none.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "framework/base/file.h"

namespace upgrade_gate::server {

// Close-on-exec; readable when the process has ended. Invalid, with errno, on an error.
inline base::Fd OpenPidfd(pid_t pid) {
  return base::Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

inline bool SignalPidfd(const base::Fd& process, int signal) {
  return syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
}

}  // namespace upgrade_gate::server
