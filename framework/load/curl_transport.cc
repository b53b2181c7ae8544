#include "framework/load/curl_transport.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "framework/base/file.h"
#include "framework/base/text.h"

namespace upgrade_gate::load {
namespace {

constexpr int kEventsAPoll = 256;
// vLLM closes an idle connection after 5 s; libcurl would keep it for 118 s and
// then run into the reset.
constexpr long kMaxIdleSeconds = 3;
constexpr long kReadBufferBytes = 16 << 10;

bool IsField(std::string_view line, std::string_view lower_name, std::string_view& value) {
  if (line.size() <= lower_name.size() || line[lower_name.size()] != ':') return false;
  for (std::size_t i = 0; i < lower_name.size(); ++i) {
    const char c =
        line[i] >= 'A' && line[i] <= 'Z' ? static_cast<char>(line[i] - 'A' + 'a') : line[i];
    if (c != lower_name[i]) return false;
  }
  value = line.substr(lower_name.size() + 1);
  constexpr std::string_view kBlank = " \t\r\n";
  value.remove_prefix(std::min(value.find_first_not_of(kBlank), value.size()));
  value = value.substr(0, value.find_last_not_of(kBlank) + 1);
  return true;
}

class CurlTransport;

// One easy handle, used for one transfer after another.
struct Transfer {
  CurlTransport* transport = nullptr;
  CURL* easy = nullptr;
  curl_slist* header_list = nullptr;
  std::vector<std::pair<std::string, std::string>> headers;  // what header_list was made from
  std::string url;
  std::array<char, CURL_ERROR_SIZE> error{};

  TransferId id = 0;  // 0: not in use
  TransferSink* sink = nullptr;
  bool cancelled = false;
  bool on_connection = false;  // the request was given to a connection
  bool retry_refused = false;
  bool head_delivered = false;
  std::size_t header_bytes = 0;
  std::string over_cap;
  ResponseHead head;
};

class CurlTransport final : public Transport {
 public:
  CurlTransport(base::Clock& clock, const CurlOptions& options)
      : clock_(clock), options_(options) {}
  ~CurlTransport() override;
  base::Status Open();

  base::Result<TransferId> Start(const HttpRequest& request, TransferSink& sink) override;
  void Cancel(TransferId id) override;
  base::Status Poll(base::Instant until) override;

 private:
  static int OnSocket(CURL* easy, curl_socket_t fd, int what, void* self, void* socket);
  static int OnTimer(CURLM* multi, long timeout_ms, void* self);
  static int OnNewSocket(void* transfer, curl_socket_t fd, curlsocktype purpose);
  static int OnRequest(void* transfer, char*, char*, int, int);
  static std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* transfer);
  static std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* transfer);

  base::Result<Transfer*> TakeTransfer();
  base::Status Prepare(Transfer& transfer, const HttpRequest& request);
  Transfer* Find(TransferId id);
  // Takes it from libcurl; its id is worth nothing from here on.
  void Release(Transfer& transfer);
  base::Status Act(curl_socket_t fd, int events);
  base::Status RunTimer();
  void Finish();
  TransferEnd EndOf(const Transfer& transfer, CURLcode code);
  base::Result<int> Wait(std::array<epoll_event, kEventsAPoll>& events, base::Instant until);

  base::Clock& clock_;
  CurlOptions options_;
  base::Fd epoll_;
  CURLM* multi_ = nullptr;
  std::vector<std::unique_ptr<Transfer>> transfers_;  // an id's low half is the index
  std::vector<std::size_t> free_;
  std::vector<TransferId> cancel_later_;  // cancelled from within a callback
  std::optional<base::Instant> timer_;
  std::uint64_t last_generation_ = 0;
  bool acting_ = false;  // libcurl is running and must not be called
  bool delivered_ = false;
  bool have_pwait2_ = true;
};

CurlTransport::~CurlTransport() {
  for (auto& transfer : transfers_) {
    if (transfer->id != 0) curl_multi_remove_handle(multi_, transfer->easy);
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->header_list);
  }
  if (multi_ != nullptr) curl_multi_cleanup(multi_);
}

base::Status CurlTransport::Open() {
  epoll_ = base::Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) {
    return base::InfrastructureError(fmt::format("epoll_create1: {}", std::strerror(errno)));
  }
  multi_ = curl_multi_init();
  if (multi_ == nullptr) return base::InfrastructureError("libcurl: no multi handle");
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &CurlTransport::OnSocket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &CurlTransport::OnTimer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
  // The default follows the number of running transfers, and shrinking it closes
  // warm connections. MAX_TOTAL_CONNECTIONS stays unset: a queue inside libcurl
  // would hide waiting time; the load limits itself.
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 2L * std::max(1, options_.max_connections));
  return {};
}

int CurlTransport::OnSocket(CURL*, curl_socket_t fd, int what, void* self, void*) {
  const int epoll = static_cast<CurlTransport*>(self)->epoll_.get();
  if (what == CURL_POLL_REMOVE) {
    epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr);  // gone already if the socket was closed
    return 0;
  }
  epoll_event event{};
  event.data.fd = fd;
  if ((what & CURL_POLL_IN) != 0) event.events |= EPOLLIN;
  if ((what & CURL_POLL_OUT) != 0) event.events |= EPOLLOUT;
  if (epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) == 0) return 0;
  return errno == ENOENT && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -1;
}

int CurlTransport::OnTimer(CURLM*, long timeout_ms, void* self) {
  auto& transport = *static_cast<CurlTransport*>(self);
  if (timeout_ms < 0) {
    transport.timer_.reset();
  } else {
    transport.timer_ = transport.clock_.now() + std::chrono::milliseconds(timeout_ms);
  }
  return 0;
}

// libcurl (7.88: Curl_retry_request) sends a request again by itself when a
// reused connection dies before a byte of the response, up to five times, and no
// option turns that off. CURLOPT_FRESH_CONNECT would, at the price of keep-alive.
// Both ways out of a retry are closed instead: it may not open a socket (here)
// and it may not ask on another pooled connection (OnRequest). PREREQFUNCTION is
// called once for each connection that a request is put on, so a second call is
// a retry: redirects, the other reason for one, are off.
int CurlTransport::OnNewSocket(void* self, curl_socket_t, curlsocktype) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (!transfer.on_connection) return CURL_SOCKOPT_OK;
  transfer.retry_refused = true;
  return CURL_SOCKOPT_ERROR;
}

int CurlTransport::OnRequest(void* self, char*, char*, int, int) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.on_connection) {
    transfer.retry_refused = true;
    return CURL_PREREQFUNC_ABORT;
  }
  transfer.on_connection = true;
  return CURL_PREREQFUNC_OK;
}

std::size_t CurlTransport::OnHeader(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.cancelled) return 0;
  const std::string_view line(data, size * count);
  transfer.header_bytes += line.size();
  if (transfer.header_bytes > transfer.transport->options_.max_header_bytes) {
    transfer.over_cap = fmt::format("response headers over {} bytes",
                                    transfer.transport->options_.max_header_bytes);
    return 0;
  }
  if (transfer.head_delivered) return line.size();  // a trailer
  std::string_view value;
  if (line.starts_with("HTTP/")) {
    transfer.head = {};
  } else if (IsField(line, "content-type", value)) {
    transfer.head.content_type = value;
  } else if (IsField(line, "retry-after", value)) {
    transfer.head.retry_after = value;
  } else if (line == "\r\n" || line == "\n") {
    long status = 0;
    curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200) return line.size();  // an interim response; the real one follows
    transfer.head.status = static_cast<int>(status);
    transfer.head_delivered = true;
    transfer.transport->delivered_ = true;
    transfer.sink->OnHead(transfer.id, transfer.head, transfer.transport->clock_.now());
  }
  return line.size();
}

std::size_t CurlTransport::OnBody(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.cancelled) return 0;
  // Stamped here, after the read: late by the queue of sockets before this one,
  // never early. The kernel's own arrival stamp will come in at Act.
  transfer.transport->delivered_ = true;
  transfer.sink->OnBody(transfer.id, std::string_view(data, size * count),
                        transfer.transport->clock_.now());
  return size * count;
}

base::Result<Transfer*> CurlTransport::TakeTransfer() {
  if (free_.empty()) {
    auto made = std::make_unique<Transfer>();
    made->transport = this;
    made->easy = curl_easy_init();
    if (made->easy == nullptr) return base::InfrastructureError("libcurl: no easy handle");
    bool ok = true;
    const auto set = [&](CURLoption option, auto value) {
      ok = curl_easy_setopt(made->easy, option, value) == CURLE_OK && ok;
    };
    set(CURLOPT_PRIVATE, made.get());
    set(CURLOPT_ERRORBUFFER, made->error.data());
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_NOPROXY, "*");
    set(CURLOPT_TCP_NODELAY, 1L);
    set(CURLOPT_BUFFERSIZE, kReadBufferBytes);
    set(CURLOPT_MAXAGE_CONN, kMaxIdleSeconds);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
    set(CURLOPT_SOCKOPTFUNCTION, &CurlTransport::OnNewSocket);
    set(CURLOPT_SOCKOPTDATA, made.get());
    set(CURLOPT_PREREQFUNCTION, &CurlTransport::OnRequest);
    set(CURLOPT_PREREQDATA, made.get());
    set(CURLOPT_HEADERFUNCTION, &CurlTransport::OnHeader);
    set(CURLOPT_HEADERDATA, made.get());
    set(CURLOPT_WRITEFUNCTION, &CurlTransport::OnBody);
    set(CURLOPT_WRITEDATA, made.get());
    if (!ok) {
      curl_easy_cleanup(made->easy);
      return base::InfrastructureError(fmt::format("libcurl {} lacks an option this client needs",
                                                   curl_version_info(CURLVERSION_NOW)->version));
    }
    free_.push_back(transfers_.size());
    transfers_.push_back(std::move(made));
  }
  const std::size_t index = free_.back();
  free_.pop_back();
  Transfer& transfer = *transfers_[index];
  transfer.id = ++last_generation_ << 24 | index;
  transfer.cancelled = transfer.on_connection = transfer.retry_refused = false;
  transfer.head_delivered = false;
  transfer.header_bytes = 0;
  transfer.over_cap.clear();
  transfer.head = {};
  transfer.error[0] = '\0';
  return &transfer;
}

base::Status CurlTransport::Prepare(Transfer& transfer, const HttpRequest& request) {
  if (transfer.header_list == nullptr || transfer.headers != request.headers) {
    curl_slist_free_all(transfer.header_list);
    // An empty field keeps libcurl from waiting a second for "100 Continue"
    // before a body over 1 MiB.
    transfer.header_list = curl_slist_append(nullptr, "Expect:");
    for (const auto& [name, value] : request.headers) {
      const std::string line = fmt::format("{}: {}", name, value);
      if (line.find_first_of("\r\n") != line.npos) {
        return base::UsageError(
            fmt::format("header \"{}\": a line break in it", base::Visible(name)));
      }
      transfer.header_list = curl_slist_append(transfer.header_list, line.c_str());
    }
    transfer.headers = request.headers;
  }
  bool ok = true;
  const auto set = [&](CURLoption option, auto value) {
    ok = curl_easy_setopt(transfer.easy, option, value) == CURLE_OK && ok;
  };
  if (transfer.url != request.url) {
    transfer.url = request.url;
    set(CURLOPT_URL, request.url.c_str());
  }
  set(CURLOPT_HTTPHEADER, transfer.header_list);
  if (request.method == "GET") {
    set(CURLOPT_HTTPGET, 1L);
  } else if (request.method == "POST") {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    // A null pointer would make libcurl read the body from stdin.
    set(CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
  } else {
    return base::UsageError(
        fmt::format("HTTP method \"{}\" is not GET or POST", base::Visible(request.method)));
  }
  if (!ok) {
    return base::InfrastructureError(
        fmt::format("libcurl does not take a request to {}", base::Visible(request.url)));
  }
  return {};
}

base::Result<TransferId> CurlTransport::Start(const HttpRequest& request, TransferSink& sink) {
  UG_CHECK(!acting_);
  UG_ASSIGN(Transfer * transfer, TakeTransfer());
  transfer->sink = &sink;
  base::Status prepared = Prepare(*transfer, request);
  if (prepared) {
    if (const CURLMcode code = curl_multi_add_handle(multi_, transfer->easy); code != CURLM_OK) {
      prepared = base::InfrastructureError(fmt::format("libcurl: {}", curl_multi_strerror(code)));
    }
  }
  if (!prepared) {
    Release(*transfer);
    return tl::unexpected(std::move(prepared).error());
  }
  return transfer->id;
}

Transfer* CurlTransport::Find(TransferId id) {
  const std::size_t index = id & 0xffffff;
  return index < transfers_.size() && transfers_[index]->id == id ? transfers_[index].get()
                                                                  : nullptr;
}

void CurlTransport::Release(Transfer& transfer) {
  curl_multi_remove_handle(multi_, transfer.easy);
  free_.push_back(transfer.id & 0xffffff);
  transfer.id = 0;
  transfer.sink = nullptr;
}

void CurlTransport::Cancel(TransferId id) {
  Transfer* const transfer = Find(id);
  if (transfer == nullptr || transfer->cancelled) return;
  transfer->cancelled = true;
  if (acting_) {
    cancel_later_.push_back(id);
  } else {
    Release(*transfer);
  }
}

base::Status CurlTransport::Act(curl_socket_t fd, int events) {
  int running = 0;
  acting_ = true;
  const CURLMcode code = curl_multi_socket_action(multi_, fd, events, &running);
  acting_ = false;
  for (const TransferId id : cancel_later_) {
    if (Transfer* const transfer = Find(id)) Release(*transfer);
  }
  cancel_later_.clear();
  if (code != CURLM_OK) {
    return base::InfrastructureError(fmt::format("libcurl: {}", curl_multi_strerror(code)));
  }
  return {};
}

base::Status CurlTransport::RunTimer() {
  if (!timer_ || *timer_ > clock_.now()) return {};
  timer_.reset();
  return Act(CURL_SOCKET_TIMEOUT, 0);
}

TransferEnd CurlTransport::EndOf(const Transfer& transfer, CURLcode code) {
  TransferEnd end;
  long connects = 0;
  curl_easy_getinfo(transfer.easy, CURLINFO_NUM_CONNECTS, &connects);
  end.new_connection = connects > 0 && !transfer.retry_refused;
  if (transfer.retry_refused) {
    end.kind = TransferEnd::Kind::kBroken;
    end.detail = "a pooled connection was dead before a byte of the response came; not sent again";
    return end;
  }
  if (!transfer.over_cap.empty()) {
    end.kind = TransferEnd::Kind::kOverCap;
    end.detail = transfer.over_cap;
    return end;
  }
  if (code == CURLE_OK) return end;
  end.kind =
      transfer.on_connection ? TransferEnd::Kind::kBroken : TransferEnd::Kind::kConnectFailed;
  end.detail =
      base::Visible(transfer.error[0] != '\0' ? transfer.error.data() : curl_easy_strerror(code));
  return end;
}

void CurlTransport::Finish() {
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* self = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &self);
    Transfer& transfer = *reinterpret_cast<Transfer*>(self);
    const TransferEnd end = EndOf(transfer, message->data.result);
    TransferSink& sink = *transfer.sink;
    const TransferId id = transfer.id;
    const bool cancelled = transfer.cancelled;
    Release(transfer);
    if (cancelled) continue;
    delivered_ = true;
    sink.OnEnd(id, end, clock_.now());
  }
}

base::Result<int> CurlTransport::Wait(std::array<epoll_event, kEventsAPoll>& events,
                                      base::Instant until) {
  const base::Nanoseconds left = std::max(base::Nanoseconds(0), until - clock_.now());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(seconds.count());
  timeout.tv_nsec = static_cast<long>((left - seconds).count());
  int count = -1;
  if (have_pwait2_) {
    count = epoll_pwait2(epoll_.get(), events.data(), kEventsAPoll, &timeout, nullptr);
    have_pwait2_ = count >= 0 || errno != ENOSYS;
  }
  if (!have_pwait2_) {  // kernels before 5.11: epoll_wait alone counts in milliseconds
    pollfd ready{epoll_.get(), POLLIN, 0};
    ppoll(&ready, 1, &timeout, nullptr);
    count = epoll_wait(epoll_.get(), events.data(), kEventsAPoll, 0);
  }
  if (count < 0 && errno != EINTR) {
    return base::InfrastructureError(fmt::format("epoll: {}", std::strerror(errno)));
  }
  return std::max(count, 0);
}

base::Status CurlTransport::Poll(base::Instant until) {
  UG_CHECK(!acting_);
  delivered_ = false;
  std::array<epoll_event, kEventsAPoll> events;
  for (;;) {
    UG_TRY(RunTimer());
    Finish();
    base::Instant wake = delivered_ ? base::Instant{} : until;
    if (timer_) wake = std::min(wake, *timer_);
    UG_ASSIGN(const int count, Wait(events, wake));
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      int mask = 0;
      // A hang-up is read too: what came before it, and then why.
      if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) mask |= CURL_CSELECT_IN;
      if ((event.events & EPOLLOUT) != 0) mask |= CURL_CSELECT_OUT;
      if ((event.events & EPOLLERR) != 0) mask |= CURL_CSELECT_ERR;
      UG_TRY(Act(event.data.fd, mask));
    }
    UG_TRY(RunTimer());
    Finish();
    if (delivered_ || clock_.now() >= until) return {};
  }
}

}  // namespace

base::Result<std::unique_ptr<Transport>> MakeCurlTransport(base::Clock& clock,
                                                           const CurlOptions& options) {
  // libcurl's own global state; made once, never undone.
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (global != CURLE_OK) {
    return base::InfrastructureError(fmt::format("libcurl: {}", curl_easy_strerror(global)));
  }
  auto transport = std::make_unique<CurlTransport>(clock, options);
  UG_TRY(transport->Open());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace upgrade_gate::load
