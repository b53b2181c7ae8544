// The host lock: on one machine, one capture at a time may have servers running,
// whoever started it. Two that measured beside each other would measure each other.
//
// The lock is the kernel's, on an open file (flock): it ends with the last process that
// has the file open, however that ends. The watchdog is given a copy, so that what a
// killed runner left is gone before others measure. What is written in the file only tells people
// who holds it. One thread; not while other threads create files (it sets the umask).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/result.h"

namespace upgrade_gate::capture {

// Not in TMPDIR, which differs between users.
inline constexpr const char* kDefaultHostLock = "/tmp/upgrade-gate-host.lock";
// Names another file, by its absolute path: for containers, and services with a
// /tmp of their own, that measure on one machine.
inline constexpr const char* kHostLockVariable = "UPGRADE_GATE_HOST_LOCK";

// The lock's file by the variable's value, which is null where it is not set.
base::Result<std::filesystem::path> HostLockFile(const char* variable);

enum class WhenHeld { kWait, kFail };

struct HostLockOptions {
  std::filesystem::path file = kDefaultHostLock;
  WhenHeld when_held = WhenHeld::kWait;
};

// What a wait needs; all of it must outlive the call.
struct HostLockWait {
  base::Clock& clock;
  const std::function<bool()>& interrupted;            // asked a few times a second
  const std::function<void(const std::string&)>& say;  // at once, then once a minute
};

// Held for the object's life; then it is free at once, whoever has a copy. The
// descriptor is close-on-exec, so that no server keeps the lock after the capture.
class HostLock {
 public:
  HostLock(HostLock&&) noexcept = default;
  HostLock& operator=(HostLock&&) = delete;
  ~HostLock();

  // Makes the file, for every user, if it is not there. Links and everything that
  // is not a regular file with one name are refused. `run`: the run's folder, for
  // the message that others see.
  static base::Result<HostLock> Acquire(const HostLockOptions& options,
                                        const std::filesystem::path& run, const HostLockWait& wait);

  int descriptor() const { return file_.get(); }

 private:
  explicit HostLock(base::Fd file) : file_(std::move(file)) {}
  base::Fd file_;
};

}  // namespace upgrade_gate::capture
