#include "framework/base/kernel_stamp.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace upgrade_gate::base {
namespace {

constexpr std::chrono::milliseconds kDeriveEvery{50};

Nanoseconds SinceEpoch(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
}

}  // namespace

void KernelStamps::Enable(int socket) {
  const int on = 1;
  // Refused only by sockets that have no stamps, and Peek then finds none.
  setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

void KernelStamps::Derive() {
  Nanoseconds narrowest = Nanoseconds::max();
  // The reading that was interrupted least.
  for (int i = 0; i < 3; ++i) {
    timespec real{};
    const Instant before = clock_.now();
    clock_gettime(CLOCK_REALTIME, &real);
    const Instant after = clock_.now();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    real_to_steady_ = before.time_since_epoch() + narrowest / 2 - SinceEpoch(real);
    derived_ = after;
  }
}

KernelStamps::Look KernelStamps::Peek(int socket) {
  char byte = 0;
  iovec where{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(timespec))];
  msghdr message{};
  message.msg_iov = &where;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t count = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0) return {.at = {}, .error = errno == EAGAIN || errno == EINTR ? 0 : errno};
  if (count == 0) return {};
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET ||
      header->cmsg_type != SCM_TIMESTAMPNS) {
    return {};
  }
  timespec stamp{};
  std::memcpy(&stamp, CMSG_DATA(header), sizeof stamp);
  if (derived_ == Instant{} || clock_.now() - derived_ >= kDeriveEvery) Derive();
  return {.at = Instant(SinceEpoch(stamp) + real_to_steady_), .error = 0};
}

}  // namespace upgrade_gate::base
