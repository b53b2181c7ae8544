// What runs in the containers of tests: one static program, the first argument says
// what it does.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

// BYTES of lines to stdout as fast as they are taken. The content is a function of
// the position only: eight digits of the line's number, fill, newline.
int Spam(std::uint64_t bytes) {
  constexpr std::uint64_t kLine = 100;
  std::string block;
  std::uint64_t written = 0;
  while (written < bytes) {
    block.clear();
    for (int i = 0; i < 600; ++i) {
      const std::string number = std::to_string((written + block.size()) / kLine);
      block += std::string(12 - number.size(), '0') + number + std::string(kLine - 13, 'x') + '\n';
    }
    std::string_view rest = std::string_view(block).substr(
        0, static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), bytes - written)));
    written += rest.size();
    while (!rest.empty()) {
      const ssize_t put = write(STDOUT_FILENO, rest.data(), rest.size());
      if (put <= 0) return 9;
      rest.remove_prefix(static_cast<std::size_t>(put));
    }
  }
  return 0;
}

int Listen(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 98;
  listen(fd, 8);
  const std::string_view line = "listening\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) return 9;
  for (;;) pause();
}

}  // namespace

// PROGRAM MODE ARGUMENT [$PORT…]
int main(int count, char** arguments) {
  const std::string_view mode = count > 1 ? arguments[1] : "";
  const long long value = count > 2 ? std::atoll(arguments[2]) : 0;
  if (mode == "spam") return Spam(static_cast<std::uint64_t>(value));
  if (mode == "listen") return Listen(static_cast<int>(value));
  if (mode == "exit") return static_cast<int>(value);
  if (mode == "abort") abort();
  if (mode == "memory") {
    // Touched, so that it is taken.
    for (;;) std::memset(std::malloc(1 << 20), 1, 1 << 20);
  }
  if (mode == "stubborn") {
    signal(SIGTERM, SIG_IGN);
    for (;;) pause();
  }
  return 64;
}
