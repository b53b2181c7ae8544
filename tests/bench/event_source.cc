// Serves streams of timed events: the load of the arrival benchmark.
//
// event_source PORT EVENTS_A_STREAM EVENTS_A_SECOND
// Every POST is answered by a stream of completion events, EVENTS_A_SECOND of
// them (0: as fast as they are taken), each about 248 bytes on the wire in a write
// of its own. The text of an event is the moment of its write on CLOCK_MONOTONIC,
// in ns; a client on the same machine knows from it how far off its stamp is.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
constexpr std::string_view kHealth = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

struct Stream {
  std::string unread;
  std::int64_t left = 0;  // events to write; 0: waits for a request
};

std::string Chunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

std::string Event() {
  return Chunk(fmt::format(
      "data: {{\"id\":\"cmpl-0123456789abcdef\",\"object\":\"text_completion\",\"created\":"
      "1700000000,\"model\":\"m\",\"choices\":[{{\"index\":0,\"text\":\"{:019}\",\"logprobs\":"
      "null,\"finish_reason\":null,\"stop_reason\":null}}],\"usage\":null}}\n\n",
      Clock::now().time_since_epoch().count()));
}

std::string Last(std::int64_t events) {
  return Chunk(fmt::format("data: {{\"choices\":[{{\"text\":\"\",\"finish_reason\":\"length\"}}],"
                           "\"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":{}}}}}\n\n",
                           events)) +
         Chunk("data: [DONE]\n\n") + "0\r\n\r\n";
}

// Waits where the reader is behind: a source that drops events measures nothing.
bool Write(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else {
      return false;
    }
  }
  return true;
}

class Source {
 public:
  Source(int port, std::int64_t events, std::int64_t rate)
      : events_(events), period_(rate > 0 ? 1'000'000'000 / rate : 0) {
    epoll_ = epoll_create1(0);
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const int on = 1;
    setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener_, 8192) != 0) {
      std::perror("event_source: bind");
      std::exit(1);
    }
    Watch(listener_);
  }

  [[noreturn]] void Run() {
    std::array<epoll_event, 512> events;
    for (;;) {
      timespec wait{3600, 0};
      if (!due_.empty()) {
        const auto left = std::max(std::chrono::nanoseconds(0), due_.top().first - Clock::now());
        wait = {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
      }
      const int count = epoll_pwait2(epoll_, events.data(), events.size(), &wait, nullptr);
      for (int i = 0; i < count; ++i) {
        const int fd = events[static_cast<std::size_t>(i)].data.fd;
        fd == listener_ ? Accept() : Read(fd);
      }
      const auto now = Clock::now();
      while (!due_.empty() && due_.top().first <= now) {
        const auto [at, fd] = due_.top();
        due_.pop();
        Next(fd, at);
      }
    }
  }

 private:
  void Watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }
  void Accept() {
    for (int fd; (fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK)) >= 0;) {
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      streams_[fd];
      Watch(fd);
    }
  }
  void Close(int fd) {
    streams_.erase(fd);
    close(fd);
  }
  void Read(int fd) {
    std::array<char, 65536> buffer;
    const ssize_t count = recv(fd, buffer.data(), buffer.size(), 0);
    if (count <= 0) return Close(fd);
    Stream& stream = streams_[fd];
    stream.unread.append(buffer.data(), static_cast<std::size_t>(count));
    const std::size_t head = stream.unread.find("\r\n\r\n");
    if (head == stream.unread.npos) return;
    const std::size_t field = stream.unread.find("Content-Length: ");
    const std::size_t body =
        field < head ? std::strtoull(stream.unread.c_str() + field + 16, nullptr, 10) : 0;
    if (stream.unread.size() < head + 4 + body) return;
    const bool get = stream.unread.starts_with("GET");
    stream.unread.clear();
    if (!Write(fd, get ? kHealth : kHead) || get) return;
    stream.left = events_;
    // Spread over a period, by a step that is prime to it.
    phase_ = (phase_ + 618'033'989) % std::max<std::int64_t>(period_, 1);
    due_.emplace(Clock::now() + std::chrono::nanoseconds(period_ + phase_), fd);
  }
  void Next(int fd, Clock::time_point at) {
    const auto found = streams_.find(fd);
    if (found == streams_.end()) return;
    constexpr int kBatch = 64;  // in one write when nothing is timed
    std::string bytes;
    for (int i = 0; i < (period_ > 0 ? 1 : kBatch) && found->second.left > 0; ++i) {
      bytes += Event();
      --found->second.left;
    }
    const bool last = found->second.left == 0;
    if (last) bytes += Last(events_);
    if (!Write(fd, bytes)) return Close(fd);
    if (!last) due_.emplace(at + std::chrono::nanoseconds(period_), fd);
  }

  using Due = std::pair<Clock::time_point, int>;
  std::int64_t events_, period_;
  std::int64_t phase_ = 0;
  int epoll_ = -1;
  int listener_ = -1;
  std::unordered_map<int, Stream> streams_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: event_source PORT EVENTS_A_STREAM EVENTS_A_SECOND\n");
    return 2;
  }
  prctl(PR_SET_TIMERSLACK, 1UL);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  Source(std::atoi(argv[1]), std::atoll(argv[2]), std::atoll(argv[3])).Run();
}
