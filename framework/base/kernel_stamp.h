// When the kernel got the bytes that wait on a socket.
//
// Not thread-safe. The kernel stamps with CLOCK_REALTIME; the way to the
// monotonic clock is measured again every 50 ms, so that a step of civil time
// spoils no more than that.
#pragma once

#include <optional>

#include "framework/base/clock.h"

namespace upgrade_gate::base {

class KernelStamps {
 public:
  explicit KernelStamps(const Clock& clock) : clock_(clock) {}

  // Asks the kernel to stamp what arrives from here on.
  static void Enable(int socket);
  // The arrival of what waits on the socket, by a look at its first byte. With
  // several segments unread the kernel may have kept the stamp of any of them.
  // `at` is absent for no bytes, and for no stamp of them (a Unix socket has none).
  // A look takes a broken connection's error away from whoever reads next, so it
  // is given back here: an errno, or 0.
  struct Look {
    std::optional<Instant> at;
    int error = 0;
  };
  Look Peek(int socket);

 private:
  void Derive();

  const Clock& clock_;
  Instant derived_{};             // when; a clock's epoch: never
  Nanoseconds real_to_steady_{};  // added to civil time
};

}  // namespace upgrade_gate::base
