// Transport over libcurl's multi_socket_action and epoll, HTTP/1.1.
//
// Arrivals carry the kernel's stamp of the bytes (SO_TIMESTAMPNS), so that they
// are right to microseconds even when this thread was late to read. A request is
// never sent twice: libcurl's own retry over a fresh connection, when a pooled
// one turns out to be dead, is forbidden and reported as kBroken.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/load/transport.h"

namespace upgrade_gate::load {

struct CurlOptions {
  int max_connections = 64;  // at least the concurrency; the connection cache is twice that
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
  std::size_t max_header_bytes = std::size_t{64} << 10;      // of all of a response's header lines
  std::vector<std::pair<std::string, std::string>> headers;  // of every request, besides its own
  std::string bearer_token;  // sent as Authorization, shown nowhere; empty: none
  // PEM file of the authorities that https servers are verified against; empty:
  // the system's. There is no way not to verify.
  std::string ca_file;
  // A header whose value, empty where it is missing, is shown to `on_watched_header`
  // with each response's head, on the thread that polls. Empty: none.
  std::string watched_header;
  std::function<void(std::string_view url, int status, std::string_view value)> on_watched_header;
  std::string unix_socket;  // the path to connect to, whatever the host of the URL; empty: TCP
};

// The clock must outlive the transport and be CLOCK_MONOTONIC, as SystemClock is.
base::Result<std::unique_ptr<Transport>> MakeCurlTransport(base::Clock& clock,
                                                           const CurlOptions& options);

// A token from where it is not seen by others, blank space around it taken off.
// Errors name the place, never what it holds.
base::Result<std::string> BearerTokenFromEnvironment(const std::string& variable);
base::Result<std::string> BearerTokenFromFile(const std::string& path);

}  // namespace upgrade_gate::load
