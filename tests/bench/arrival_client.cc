// Reads many streams of event_source and says what that cost and how far off its
// stamps are, as one line of JSON.
//
// arrival_client ours|unkept|sink PORT STREAMS [untimed] [requests=N] [ca=FILE]
// `ours` is the transport and the response reader of this project on as many
// threads as it would use, raw bytes spooled to disk; `unkept` the same without
// keeping them; `sink` takes the bytes with recv and throws them away.
// Untimed, events are not compared with their moments of writing: flat out these say
// nothing, and keeping them is memory that is not the client's. With `requests` a
// stream makes so many, one after the other; with `ca` they go over TLS.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "framework/evidence/raw_bytes.h"
#include "framework/load/curl_transport.h"
#include "framework/load/prime.h"
#include "framework/load/response_reader.h"
#include "framework/load/shards.h"

namespace upgrade_gate::bench {
namespace {

using namespace std::chrono_literals;

constexpr const char* kSpoolFolder = "/var/tmp";

struct Result {
  std::int64_t events = 0;
  std::int64_t failed = 0;
  std::vector<std::int64_t> kernel_error_ns, user_error_ns;
};

std::int64_t CpuNs() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto ns = [](const timeval& t) {
    return (static_cast<std::int64_t>(t.tv_sec) * 1'000'000 + t.tv_usec) * 1000;
  };
  return ns(use.ru_utime) + ns(use.ru_stime);
}

// Without the pages of files: the code of libraries is no memory of a stream.
std::int64_t ResidentBytes() {
  long resident = 0, shared = 0;
  if (std::FILE* const file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*d %ld %ld", &resident, &shared) != 2) resident = shared = 0;
    std::fclose(file);
  }
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

// Calls `with` for the moment of writing that each text says.
template <typename With>
void EachWritten(std::string_view bytes, With with) {
  constexpr std::string_view kText = "\"text\":\"";
  const char* const end = bytes.data() + bytes.size();
  const auto find = [&](const char* from) {
    // Not std::string_view::find, which stops at every quote.
    return static_cast<const char*>(
        memmem(from, static_cast<std::size_t>(end - from), kText.data(), kText.size()));
  };
  for (const char* at = find(bytes.data()); at != nullptr; at = find(at + 1)) {
    std::int64_t written = 0;
    const char* const digits = at + kText.size();
    const auto number = std::from_chars(digits, end, written);
    if (number.ptr != digits) with(written);
  }
}

struct Options {
  std::string_view kind;
  std::string port;
  int streams = 0;
  bool timed = true;
  int requests = 1;  // of a stream
  std::string ca_file;

  bool keep() const { return kind == "ours"; }
};

class Stream final : public load::TransferSink {
 public:
  Stream(Result& result, std::shared_ptr<evidence::Spool> spool, bool timed)
      : result_(result), reader_(Caps(spool != nullptr), spool), timed_(timed) {}
  void OnHead(load::TransferId, const load::ResponseHead& head, base::Instant) override {
    reader_.OnHeaders(head.status, head.content_type, head.retry_after);
  }
  void OnBody(load::TransferId, std::string_view bytes, const load::Arrival& arrival) override {
    reader_.OnBody(bytes, arrival.at);
    if (!timed_) return;
    EachWritten(bytes, [&](std::int64_t written) {
      result_.kernel_error_ns.push_back(arrival.at.time_since_epoch().count() - written);
      result_.user_error_ns.push_back(arrival.read.time_since_epoch().count() - written);
    });
  }
  void OnEnd(load::TransferId, const load::TransferEnd& end, base::Instant at) override {
    reader_.OnEnd(load::EndKind::kComplete, end.detail, at);
    const bool whole = end.kind == load::TransferEnd::Kind::kComplete && reader_.done_seen();
    result_.failed += whole ? 0 : 1;
    // Not by EachWritten, which misses a text that two reads share.
    result_.events += reader_.observation().chunks;
    ended = true;
    ++requests;
    reader_.Reset();
  }
  bool ended = false;
  int requests = 0;

 private:
  static load::ReaderCaps Caps(bool keep) {
    load::ReaderCaps caps;
    if (!keep) caps.raw_bytes = 0;
    return caps;
  }

  Result& result_;
  load::ResponseReader reader_;
  const bool timed_;
};

void RunOurs(const Options& bench, Result& result, std::int64_t& memory) {
  const int streams = bench.streams;
  const std::string url =
      fmt::format("http{}://127.0.0.1:{}", bench.ca_file.empty() ? "" : "s", bench.port);
  base::SystemClock clock;
  const std::size_t shards = load::ShardsFor(streams);
  std::vector<std::unique_ptr<load::Transport>> transports;
  std::vector<load::Transport*> pointers;
  for (std::size_t i = 0; i < shards; ++i) {
    load::CurlOptions options;
    options.max_connections = std::min(streams, load::kStreamsAShard);
    options.ca_file = bench.ca_file;
    transports.push_back(std::move(*load::MakeCurlTransport(clock, options)));
    pointers.push_back(transports.back().get());
  }
  const std::int64_t before = ResidentBytes();
  if (!load::PrimeConnections(pointers, clock, url, streams)) std::exit(1);
  std::vector<Result> results(shards);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < shards; ++i) {
      threads.emplace_back([&, i] {
        load::HttpRequest request;
        request.url = url + "/v1/completions";
        request.body = "{}";
        std::deque<Stream> sinks;
        // As the driver does: the raw bytes of every response are kept on disk.
        std::shared_ptr<evidence::Spool> spool;
        if (bench.keep()) spool = std::move(*evidence::Spool::Create(kSpoolFolder));
        const int share = load::ShareOf(streams, i, shards);
        for (int k = 0; k < share; ++k) {
          if (!transports[i]->Start(request, sinks.emplace_back(results[i], spool, bench.timed)))
            std::exit(1);
        }
        const auto running = [](const Stream& s) { return !s.ended; };
        const base::Instant most = clock.now() + 120s;
        while (clock.now() < most && std::any_of(sinks.begin(), sinks.end(), running)) {
          const base::Instant turn = clock.now() + 50ms;
          while (clock.now() < turn) {
            if (!transports[i]->Poll(turn)) std::exit(1);
            if (bench.requests == 1) continue;
            for (Stream& sink : sinks) {
              if (!sink.ended || sink.requests == bench.requests) continue;
              sink.ended = false;
              if (!transports[i]->Start(request, sink)) std::exit(1);
            }
          }
        }
        results[i].failed += std::count_if(sinks.begin(), sinks.end(), running);
      });
    }
    // In the middle, when all streams are open.
    clock.SleepUntil(clock.now() + 2s);
    malloc_trim(0);
    memory = (ResidentBytes() - before) / streams;
  }
  for (const Result& part : results) {
    result.events += part.events;
    result.failed += part.failed;
    result.kernel_error_ns.insert(result.kernel_error_ns.end(), part.kernel_error_ns.begin(),
                                  part.kernel_error_ns.end());
    result.user_error_ns.insert(result.user_error_ns.end(), part.user_error_ns.begin(),
                                part.user_error_ns.end());
  }
}

void RunSink(int port, int streams, Result& result) {
  const int epoll = epoll_create1(0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < streams; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::exit(1);
    constexpr std::string_view kRequest =
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    if (send(fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) < 0) std::exit(1);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
  }
  std::array<epoll_event, 256> events;
  std::array<char, 16384> buffer;
  for (int open = streams; open > 0;) {
    const int count = epoll_wait(epoll, events.data(), events.size(), -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
      const std::string_view bytes(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
      for (std::size_t at = bytes.find("\n\n"); at != bytes.npos; at = bytes.find("\n\n", at + 2)) {
        ++result.events;
      }
      if (got > 0 && !bytes.ends_with("0\r\n\r\n")) continue;
      result.events -= 2;  // the last two events are not timed
      close(fd);
      --open;
    }
  }
}

std::string Quantile(std::vector<std::int64_t>& values, double q) {
  if (values.empty()) return "null";
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return fmt::format("{:.1f}", static_cast<double>(*at) / 1000);
}

int Main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr,
               "usage: arrival_client ours|unkept|sink PORT STREAMS [untimed] [requests=N] "
               "[ca=FILE]\n");
    return 2;
  }
  Options bench;
  bench.kind = argv[1];
  bench.port = argv[2];
  bench.streams = std::atoi(argv[3]);
  for (int i = 4; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "untimed") bench.timed = false;
    if (option.starts_with("requests=")) bench.requests = std::atoi(argv[i] + 9);
    if (option.starts_with("ca=")) bench.ca_file = option.substr(3);
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  Result result;
  std::int64_t memory = 0;
  const std::int64_t cpu = CpuNs();
  const auto start = std::chrono::steady_clock::now();
  if (bench.kind != "sink") {
    RunOurs(bench, result, memory);
  } else {
    RunSink(std::atoi(argv[2]), bench.streams, result);
  }
  const std::int64_t used = CpuNs() - cpu;
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  const auto events = static_cast<double>(std::max<std::int64_t>(result.events, 1));
  fmt::print(
      "{{\"client\":\"{}\",\"streams\":{},\"events\":{},\"failed\":{},\"cpu_us_per_event\":{:.2f},"
      "\"events_per_cpu_s\":{:.0f},\"cpu_share\":{:.2f},\"kernel_error_us\":{{\"p50\":{},\"p99\":{}"
      "}},\"user_error_us\":{{\"p50\":{},\"p99\":{}}},\"resident_bytes_per_stream\":{}}}\n",
      bench.kind, bench.streams, result.events, result.failed,
      static_cast<double>(used) / 1000 / events, events / (static_cast<double>(used) / 1e9),
      static_cast<double>(used) / 1e9 / wall.count(), Quantile(result.kernel_error_ns, 0.5),
      Quantile(result.kernel_error_ns, 0.99), Quantile(result.user_error_ns, 0.5),
      Quantile(result.user_error_ns, 0.99), memory);
  return result.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace upgrade_gate::bench

int main(int argc, char** argv) {
  return upgrade_gate::bench::Main(argc, argv);
}
