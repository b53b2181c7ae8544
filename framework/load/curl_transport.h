// Transport over libcurl's multi_socket_action and epoll, HTTP/1.1.
//
// A request is never sent twice: libcurl's own retry over a fresh connection,
// when a pooled one turns out to be dead, is forbidden and reported as kBroken.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "framework/load/transport.h"

namespace upgrade_gate::load {

struct CurlOptions {
  int max_connections = 64;  // at least the concurrency; the connection cache is twice that
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
  std::size_t max_header_bytes = std::size_t{64} << 10;  // of all of a response's header lines
};

// The clock must outlive the transport.
base::Result<std::unique_ptr<Transport>> MakeCurlTransport(base::Clock& clock,
                                                           const CurlOptions& options);

}  // namespace upgrade_gate::load
