#include "framework/load/curl_transport.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "framework/base/file.h"
#include "framework/base/kernel_stamp.h"
#include "framework/base/text.h"

namespace upgrade_gate::load {
namespace {

constexpr int kEventsAPoll = 256;
// vLLM closes an idle connection after 5 s; libcurl would keep it for 118 s and
// then run into the reset.
constexpr long kMaxIdleSeconds = 3;
// What the read buffers of all connections hold together. Many streams of small
// events do not need large ones, and it is most of what a stream costs in memory.
constexpr long kReadBuffersBytes = 512 << 10;
constexpr long kLeastReadBuffer = 2 << 10;
constexpr long kMostReadBuffer = 16 << 10;
// libcurl goes on reading a socket while there is more, and only what was there
// at the look is of its stamp. So a stamp is good for the first piece and those
// that follow within this, and never more than this too early.
constexpr std::chrono::microseconds kStampLasts{100};
// A sleeping thread wakes up to about 100 µs late; the last stretch before the
// moment that Poll was given is spent looking instead.
constexpr std::chrono::microseconds kSpin{100};

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
  base::Instant started;
  bool cancelled = false;
  bool on_connection = false;  // the request was given to a connection
  bool retry_refused = false;
  int broken = 0;  // the errno that a look at its socket took away
  bool head_delivered = false;
  std::size_t header_bytes = 0;
  std::string over_cap;
  ResponseHead head;
  std::string watched;  // the value of CurlOptions::watched_header
};

class CurlTransport final : public Transport {
 public:
  CurlTransport(base::Clock& clock, const CurlOptions& options)
      : clock_(clock), options_(options), stamps_(clock) {
    for (char& c : options_.watched_header) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
  }
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
  void Look(int fd);
  base::Status Act(curl_socket_t fd, int events);
  Arrival ArrivalAt(const Transfer& transfer, base::Instant read);
  int TakeRetransmits(CURL* easy);
  base::Status RunTimer();
  void Finish();
  TransferEnd EndOf(const Transfer& transfer, CURLcode code);
  base::Result<int> Wait(std::array<epoll_event, kEventsAPoll>& events, base::Instant wake);

  base::Clock& clock_;
  CurlOptions options_;
  base::Fd epoll_;
  CURLM* multi_ = nullptr;
  std::vector<std::unique_ptr<Transfer>> transfers_;  // an id's low half is the index
  std::vector<std::size_t> free_;
  std::vector<TransferId> cancel_later_;  // cancelled from within a callback
  std::optional<base::Instant> timer_;
  std::uint64_t last_generation_ = 0;
  base::KernelStamps stamps_;
  std::optional<base::Instant> stamp_;       // of the socket that is acted on
  std::optional<base::Instant> last_piece_;  // that was given the stamp; none yet
  std::uint64_t look_ = 0;                   // counts the acts
  struct Socket {
    Transfer* transfer = nullptr;  // the last that waited for it
    unsigned retransmits = 0;      // as far as reported
  };
  std::unordered_map<int, Socket> sockets_;
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

int CurlTransport::OnSocket(CURL* easy, curl_socket_t fd, int what, void* self, void*) {
  auto& transport = *static_cast<CurlTransport*>(self);
  const int epoll = transport.epoll_.get();
  if (what == CURL_POLL_REMOVE) {
    epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr);  // gone already if the socket was closed
    return 0;
  }
  char* transfer = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
  transport.sockets_[fd].transfer = reinterpret_cast<Transfer*>(transfer);
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
int CurlTransport::OnNewSocket(void* self, curl_socket_t fd, curlsocktype) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (!transfer.on_connection) {
    base::KernelStamps::Enable(fd);
    transfer.transport->sockets_[fd] = {};
    return CURL_SOCKOPT_OK;
  }
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
  if (IsField(line, transfer.transport->options_.watched_header, value)) transfer.watched = value;
  if (line.starts_with("HTTP/")) {
    transfer.head = {};
    transfer.watched.clear();
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
    const CurlOptions& options = transfer.transport->options_;
    if (!options.watched_header.empty()) {
      options.on_watched_header(transfer.url, transfer.head.status, transfer.watched);
    }
    const base::Instant read = transfer.transport->clock_.now();
    transfer.sink->OnHead(transfer.id, transfer.head,
                          transfer.transport->ArrivalAt(transfer, read).at);
  }
  return line.size();
}

std::size_t CurlTransport::OnBody(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.cancelled) return 0;
  CurlTransport& transport = *transfer.transport;
  transport.delivered_ = true;
  transfer.sink->OnBody(transfer.id, std::string_view(data, size * count),
                        transport.ArrivalAt(transfer, transport.clock_.now()));
  return size * count;
}

// A stamp outside the transfer's life is of a clock that was set meanwhile.
Arrival CurlTransport::ArrivalAt(const Transfer& transfer, base::Instant read) {
  const bool stamped = stamp_ && *stamp_ >= transfer.started && *stamp_ <= read &&
                       (!last_piece_ || read - *last_piece_ <= kStampLasts);
  if (!stamped) stamp_.reset();
  last_piece_ = read;
  return {.at = stamped ? *stamp_ : read, .read = read, .stamped = stamped, .look = look_};
}

// What this side had to send again on the connection since it was last asked.
int CurlTransport::TakeRetransmits(CURL* easy) {
  curl_socket_t fd = CURL_SOCKET_BAD;
  if (curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd < 0) return 0;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;  // a Unix socket
  unsigned& reported = sockets_[fd].retransmits;
  const unsigned more = info.tcpi_total_retrans - std::min(reported, info.tcpi_total_retrans);
  reported = info.tcpi_total_retrans;
  return static_cast<int>(more);
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
    set(CURLOPT_BUFFERSIZE, std::clamp(kReadBuffersBytes / std::max(1, options_.max_connections),
                                       kLeastReadBuffer, kMostReadBuffer));
    set(CURLOPT_MAXAGE_CONN, kMaxIdleSeconds);
    set(CURLOPT_DNS_CACHE_TIMEOUT, -1L);  // no name is looked up twice
    set(CURLOPT_SSL_VERIFYPEER, 1L);
    set(CURLOPT_SSL_VERIFYHOST, 2L);
    set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    if (!options_.ca_file.empty()) {
      set(CURLOPT_CAINFO, options_.ca_file.c_str());
      set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));  // this file alone
    }
    if (!options_.unix_socket.empty()) {
      set(CURLOPT_UNIX_SOCKET_PATH, options_.unix_socket.c_str());
    }
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
  transfer.started = clock_.now();
  transfer.cancelled = transfer.on_connection = transfer.retry_refused = false;
  transfer.broken = 0;
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
    std::vector<std::pair<std::string, std::string>> headers = options_.headers;
    headers.insert(headers.end(), request.headers.begin(), request.headers.end());
    if (!options_.bearer_token.empty()) {
      headers.emplace_back("Authorization", "Bearer " + options_.bearer_token);
    }
    for (const auto& [name, value] : headers) {
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

void CurlTransport::Look(int fd) {
  const base::KernelStamps::Look look = stamps_.Peek(fd);
  stamp_ = look.at;
  last_piece_.reset();
  if (look.error == 0) return;
  const auto found = sockets_.find(fd);
  if (found != sockets_.end() && found->second.transfer != nullptr) {
    found->second.transfer->broken = look.error;
  }
}

base::Status CurlTransport::Act(curl_socket_t fd, int events) {
  int running = 0;
  ++look_;
  acting_ = true;
  const CURLMcode code = curl_multi_socket_action(multi_, fd, events, &running);
  acting_ = false;
  stamp_.reset();
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
  if (end.new_connection) {
    curl_off_t connect_us = 0;
    curl_off_t tls_us = 0;  // 0 without TLS
    curl_easy_getinfo(transfer.easy, CURLINFO_CONNECT_TIME_T, &connect_us);
    curl_easy_getinfo(transfer.easy, CURLINFO_APPCONNECT_TIME_T, &tls_us);
    end.connect = std::chrono::microseconds(std::max(connect_us, tls_us));
  }
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
  if (transfer.broken != 0) {  // libcurl saw an orderly end
    end.kind = TransferEnd::Kind::kBroken;
    end.detail = std::strerror(transfer.broken);
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
    TransferEnd end = EndOf(transfer, message->data.result);
    end.retransmits = TakeRetransmits(transfer.easy);
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
                                      base::Instant wake) {
  const base::Nanoseconds left = std::max(base::Nanoseconds(0), wake - clock_.now());
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
    base::Instant wake = delivered_ ? base::Instant{} : until - kSpin;
    if (timer_) wake = std::min(wake, *timer_);
    UG_ASSIGN(const int count, Wait(events, wake));
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      int mask = 0;
      // A hang-up is read too: what came before it, and then why.
      if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) mask |= CURL_CSELECT_IN;
      if ((event.events & EPOLLOUT) != 0) mask |= CURL_CSELECT_OUT;
      if ((event.events & EPOLLERR) != 0) mask |= CURL_CSELECT_ERR;
      // An error that epoll has seen is left to libcurl, whose words are better.
      if ((event.events & (EPOLLIN | EPOLLERR)) == EPOLLIN) Look(event.data.fd);
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
