// The seam between the load and the network: starts requests, delivers bytes
// with their arrival times. Not thread-safe: one transport a thread.
//
// CurlTransport is the real one; tests have a hand-written fake.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/result.h"

namespace upgrade_gate::load {

using TransferId = std::uint64_t;  // never 0, never used twice by one transport

struct HttpRequest {
  std::string method = "POST";  // GET or POST
  std::string url;  // http:// or https://, best with a literal address; no redirects, no proxy
  std::vector<std::pair<std::string, std::string>> headers;
  std::string_view body;  // must outlive the transfer
};

struct ResponseHead {
  int status = 0;
  std::string content_type;  // as it came; empty: none
  std::string retry_after;
};

// When a piece of a body came.
struct Arrival {
  base::Instant at;    // the kernel had it; `read` where the kernel gave no stamp
  base::Instant read;  // this thread had it; never before it arrived
  bool stamped = false;
  // Pieces of one transfer with the same number came out of one look at the
  // socket and share `at`: the kernel keeps one stamp for all that is unread.
  std::uint64_t look = 0;
};

struct TransferEnd {
  enum class Kind {
    kComplete,       // the body ended as its framing promised
    kConnectFailed,  // the request was never on a connection
    kBroken,         // reset, cut short, broken framing; a pooled connection found dead
    kOverCap,        // a cap of the transport; `detail` names it
  } kind = Kind::kComplete;
  std::string detail;           // the library's words, visible
  bool new_connection = false;  // not one from the pool
  base::Nanoseconds connect{};  // of a new connection, name and TLS included
  int retransmits = 0;          // TCP segments that this side sent again during the transfer
};

// Called from within Poll only, in the order head, body pieces, end. Of these a
// sink may only call Cancel back; it must not Start or Poll.
class TransferSink {
 public:
  virtual ~TransferSink() = default;
  // `at` as Arrival::at.
  virtual void OnHead(TransferId id, const ResponseHead& head, base::Instant at) = 0;
  virtual void OnBody(TransferId id, std::string_view bytes, const Arrival& arrival) = 0;
  // `at` is when this thread saw the end.
  virtual void OnEnd(TransferId id, const TransferEnd& end, base::Instant at) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // The sink must outlive the transfer. Bytes are sent by the next Poll.
  virtual base::Result<TransferId> Start(const HttpRequest& request, TransferSink& sink) = 0;
  // Closes the connection; the sink hears nothing more of it. An id that has
  // ended is ignored.
  virtual void Cancel(TransferId id) = 0;
  // Waits until something was delivered or `until` has passed, delivers it all.
  // An `until` in the past takes what is there and returns. A sender faster than
  // this thread can hold Poll up: sinks cancel what grows over their cap.
  virtual base::Status Poll(base::Instant until) = 0;
};

}  // namespace upgrade_gate::load
