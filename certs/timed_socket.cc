#include "certs/timed_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

namespace muster {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

Error unavailable(std::string message, std::string reason = {}) {
  return Error{ErrorCode::kUnavailable, std::move(message), std::move(reason)};
}

std::string text_of(int number) {
  return std::generic_category().message(number);
}

bool would_block(int number) {
  return number == EAGAIN || number == EWOULDBLOCK;
}

}  // namespace

TimedSocket::TimedSocket(TimedSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), deadline_(other.deadline_) {}

TimedSocket::~TimedSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<TimedSocket> TimedSocket::connect(const std::string& host, int port, Deadline deadline) {
  if (port < 1 || port > 65535) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("port {}; wanted 1 to 65535", port)};
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) {
    return unavailable(fmt::format("host \"{}\" not found: {}", printable(host),
                                   failed == EAI_SYSTEM ? text_of(errno) : gai_strerror(failed)));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);

  std::chrono::steady_clock::rep waiting = 0;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) ++waiting;
  Error last = unavailable(fmt::format("host \"{}\" has no address", printable(host)));
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next, --waiting) {
    // A share of what is left, so that a dead first address leaves time for the others.
    const auto now = std::chrono::steady_clock::now();
    TimedSocket socket(
        ::socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol),
        now + (deadline - now) / waiting);
    Status connected;
    if (socket.descriptor_ < 0) {
      connected = unavailable(text_of(errno));
    } else if (::connect(socket.descriptor_, at->ai_addr, at->ai_addrlen) < 0) {
      connected = errno == EINPROGRESS ? socket.finish_connect() : unavailable(text_of(errno));
    }
    if (connected) {
      socket.deadline_ = deadline;
      const int on = 1;
      ::setsockopt(socket.descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return socket;
    }
    last = std::move(connected).error();
  }
  return last;
}

Status TimedSocket::finish_connect() {
  MUSTER_TRY_STATUS(wait(POLLOUT));
  int failed = 0;
  socklen_t size = sizeof failed;
  if (::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &failed, &size) < 0) failed = errno;
  if (failed != 0) return unavailable(text_of(failed));
  return {};
}

Status TimedSocket::wait(short events) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    if (left.count() <= 0) return unavailable("no answer in time", "timeout");
    pollfd entry{descriptor_, events, 0};
    const auto limit = std::min<std::chrono::milliseconds::rep>(left.count(), 60'000);
    const int ready = ::poll(&entry, 1, static_cast<int>(limit));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return unavailable(text_of(errno));
  }
}

Status TimedSocket::send(ByteView bytes) {
  while (!bytes.empty()) {
    MUSTER_TRY_STATUS(wait(POLLOUT));
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno != EINTR && !would_block(errno)) {
      return unavailable(text_of(errno));
    }
  }
  return {};
}

Result<std::size_t> TimedSocket::receive(std::span<std::byte> buffer) {
  while (true) {
    MUSTER_TRY_STATUS(wait(POLLIN));
    const ssize_t got = ::recv(descriptor_, buffer.data(), buffer.size(), 0);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR && !would_block(errno)) return unavailable(text_of(errno));
  }
}

void TimedSocket::try_send(ByteView bytes) {
  static_cast<void>(::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

}  // namespace muster
