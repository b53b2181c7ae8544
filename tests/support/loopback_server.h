// A real server, on 127.0.0.1 or a Unix socket, that does byte for byte what a
// test says.
//
// One thread accepts and each connection has its own, which runs the handler
// until it returns. The destructor shuts every socket down and joins.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "framework/base/result.h"

namespace upgrade_gate::testing {

class Connection {
 public:
  explicit Connection(int fd, int number) : fd_(fd), number_(number) {}
  int number() const { return number_; }  // from 1, in the order of accepting
  int fd() const { return fd_; }

  // Head and body of the next request; nothing when the client has gone.
  std::optional<std::string> ReadRequest() {
    std::string& bytes = unread_;
    for (;;) {
      const std::size_t head = bytes.find("\r\n\r\n");
      if (head != bytes.npos) {
        const std::size_t length = head + 4 + ContentLength(bytes.substr(0, head));
        if (bytes.size() >= length) {
          std::string request = bytes.substr(0, length);
          bytes.erase(0, length);
          return request;
        }
      }
      if (!ReadSome()) return std::nullopt;
    }
  }
  // Waits until the client closes; false if it sent something instead.
  bool WaitForClose() { return unread_.empty() && !ReadSome(); }
  // False when the client has gone.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // The connection ends with a reset instead of an orderly close.
  void Reset() {
    const linger hard{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  }

 private:
  static std::size_t ContentLength(const std::string& head) {
    const std::size_t at = head.find("Content-Length: ");
    return at == head.npos ? 0 : static_cast<std::size_t>(std::atoll(head.c_str() + at + 16));
  }
  bool ReadSome() {
    char buffer[65536];
    const ssize_t count = recv(fd_, buffer, sizeof buffer, 0);
    if (count <= 0) return false;
    unread_.append(buffer, static_cast<std::size_t>(count));
    return true;
  }

  int fd_;
  int number_;
  std::string unread_;
};

class LoopbackServer {
 public:
  using Handler = std::function<void(Connection&)>;

  explicit LoopbackServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    UG_CHECK(bind(listener_, any, size) == 0 && listen(listener_, 256) == 0 &&
             getsockname(listener_, any, &size) == 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  LoopbackServer(Handler handler, const std::string& unix_path) : handler_(std::move(handler)) {
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    UG_CHECK(unix_path.size() < sizeof address.sun_path);
    std::strcpy(address.sun_path, unix_path.c_str());
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    UG_CHECK(bind(listener_, any, sizeof address) == 0 && listen(listener_, 256) == 0);
    acceptor_ = std::thread([this] { Accept(); });
  }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;
  ~LoopbackServer() { Stop(); }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string https_url() const { return "https://127.0.0.1:" + std::to_string(port_); }
  int connections() const { return accepted_; }

  // Until every handler so far has returned by itself.
  void WaitForHandlers() {
    std::unique_lock lock(mutex_);
    closed_.wait(lock, [this] { return open_.empty(); });
  }

  // Refuses new connections and ends the open ones; idempotent.
  void Stop() {
    if (!acceptor_.joinable()) return;
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Accept() {
    for (;;) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const int one = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      const int number = ++accepted_;
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      threads_.emplace_back([this, fd, number] {
        Connection connection(fd, number);
        handler_(connection);
        const std::lock_guard lock_open(mutex_);
        std::erase(open_, fd);
        close(fd);
        closed_.notify_all();
      });
    }
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> accepted_ = 0;
  std::mutex mutex_;
  std::condition_variable closed_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

// The usual frames of an answer.
inline std::string StreamHead(std::string_view more = "") {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
         "Transfer-Encoding: chunked\r\n" +
         std::string(more) + "\r\n";
}
inline std::string Chunk(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string size;
  for (std::size_t left = bytes.size(); left > 0; left /= 16) size.insert(0, 1, kDigits[left % 16]);
  return size + "\r\n" + std::string(bytes) + "\r\n";
}
inline std::string LastChunk() {
  return "0\r\n\r\n";
}

}  // namespace upgrade_gate::testing
