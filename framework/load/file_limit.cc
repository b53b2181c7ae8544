#include "framework/load/file_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace upgrade_gate::load {
namespace {

// Beside the connections: evidence, log, watchdog, epoll and spool of every shard.
constexpr rlim_t kOwnFiles = 256;

}  // namespace

base::Status RaiseFileLimit(int connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return base::InfrastructureError(
        fmt::format("the limit of open files cannot be read: {}", std::strerror(errno)));
  }
  const rlim_t wanted = static_cast<rlim_t>(connections) + kOwnFiles;
  if (limit.rlim_cur >= wanted) return {};
  if (limit.rlim_max < wanted) {
    return base::InfrastructureError(fmt::format(
        "{} connections at once need {} open files, and this process may have {}: raise the hard "
        "limit (ulimit -Hn {}, LimitNOFILE= of a service) or lower the plan's concurrency or "
        "max_in_flight",
        connections, wanted, limit.rlim_max, wanted));
  }
  limit.rlim_cur = wanted;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return base::InfrastructureError(fmt::format(
        "the limit of open files cannot be raised to {}: {}", wanted, std::strerror(errno)));
  }
  return {};
}

}  // namespace upgrade_gate::load
