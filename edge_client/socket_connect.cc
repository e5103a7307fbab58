#include "edge_client/socket_connect.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>

#include "core/base/invariant.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

Error unavailable(const ServerUrl& server, std::string_view why) {
  return {ErrorCode::kUnavailable, fmt::format("{} cannot be reached: {}", server.text(), why),
          "not_reachable"};
}

// ThreadSanitizer crashes in threads that the C library makes without it.
#if defined(__SANITIZE_THREAD__)
constexpr bool kLookAside = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kLookAside = false;
#else
constexpr bool kLookAside = true;
#endif
#else
constexpr bool kLookAside = true;
#endif

// A name look-up that can be left: the resolver works in a thread of the C library, so a request
// that could not be taken back stays allocated until the process ends.
struct Lookup {
  std::string host, service;
  addrinfo hints{};
  gaicb request{};

  Lookup() = default;
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;
  ~Lookup() {
    if (request.ar_result != nullptr) freeaddrinfo(request.ar_result);
  }
};

int look_up_here(Lookup& lookup) {
  const int error = getaddrinfo(lookup.host.c_str(), lookup.service.c_str(), &lookup.hints,
                                &lookup.request.ar_result);
  if (error != 0) lookup.request.ar_result = nullptr;
  return error;
}

// Begins a look-up in the C library's thread; EAI_INPROGRESS when it is under way.
int start_aside(Lookup& lookup) {
  lookup.request.ar_name = lookup.host.c_str();
  lookup.request.ar_service = lookup.service.c_str();
  lookup.request.ar_request = &lookup.hints;
  gaicb* list[] = {&lookup.request};
  const int error = getaddrinfo_a(GAI_NOWAIT, list, 1, nullptr);
  return error != 0 ? error : gai_error(&lookup.request);
}

Result<std::unique_ptr<Lookup>> look_up(const ServerUrl& server, Clock::time_point deadline,
                                        const Interrupt& interrupt) {
  auto lookup = std::make_unique<Lookup>();
  lookup->host = server.host;
  lookup->service = std::to_string(server.port);
  lookup->hints.ai_socktype = SOCK_STREAM;
  lookup->hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  if (look_up_here(*lookup) == 0) return lookup;
  lookup->hints.ai_flags = AI_NUMERICSERV;
  int error = kLookAside ? start_aside(*lookup) : look_up_here(*lookup);
  while (error == EAI_INPROGRESS) {
    const bool late = Clock::now() >= deadline;
    if (late || interrupt.requested()) {
      if (gai_cancel(&lookup->request) == EAI_NOTCANCELED) (void)lookup.release();
      if (late) return unavailable(server, "the name look-up took too long");
      return Error{ErrorCode::kCancelled, "stopped during a name look-up", "interrupted"};
    }
    const timespec slice{0, 50'000'000};
    const gaicb* list[] = {&lookup->request};
    gai_suspend(list, 1, &slice);
    error = gai_error(&lookup->request);
  }
  if (error != 0) return unavailable(server, gai_strerror(error));
  return lookup;
}

Result<int> connect_to(const ServerUrl& server, const addrinfo& address, Clock::time_point deadline,
                       const Interrupt& interrupt) {
  const int socket = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return unavailable(server, std::strerror(errno));
  const auto close_with = [&](Error error) -> Error {
    ::close(socket);
    return error;
  };
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  if (::connect(socket, address.ai_addr, address.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return close_with(unavailable(server, std::strerror(errno)));
  auto ready = wait_for(socket, POLLOUT, deadline, interrupt);
  if (!ready) {
    if (ready.error().code == ErrorCode::kCancelled) return close_with(std::move(ready).error());
    return close_with(unavailable(server, "no answer to the connection attempt"));
  }
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return close_with(unavailable(server, std::strerror(error)));
  return socket;
}

}  // namespace

Interrupt::Interrupt() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) invariant_broken("eventfd: no descriptor left for a transport");
}

Interrupt::~Interrupt() {
  ::close(descriptor_);
}

void Interrupt::request() {
  const std::lock_guard lock(mutex_);  // flag and descriptor change together
  requested_.store(true);
  const std::uint64_t one = 1;
  (void)!::write(descriptor_, &one, sizeof(one));  // full means that it is readable already
}

bool Interrupt::take() {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  (void)!::read(descriptor_, &count, sizeof(count));
  return requested_.exchange(false);
}

Result<short> wait_for(int socket, short events, Clock::time_point deadline,
                       const Interrupt& interrupt) {
  while (true) {
    if (interrupt.requested()) {
      return Error{ErrorCode::kCancelled, "stopped while waiting for the network", "interrupted"};
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    std::array<pollfd, 2> polled{{{socket, events, 0}, {interrupt.descriptor(), POLLIN, 0}}};
    const int timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
    const int ready = poll(polled.data(), polled.size(), timeout);
    if (ready > 0 && polled[0].revents != 0) return polled[0].revents;
    if (ready < 0 && errno != EINTR) {
      return Error{ErrorCode::kUnavailable, fmt::format("poll: {}", std::strerror(errno))};
    }
    if (ready == 0 && left <= 0) {
      return Error{ErrorCode::kDeadlineExceeded, "the server did not move data for too long",
                   "timeout"};
    }
  }
}

Result<int> connect_socket(const ServerUrl& server, Clock::time_point deadline,
                           const Interrupt& interrupt) {
  MUSTER_TRY(const auto lookup, look_up(server, deadline, interrupt));
  std::int64_t addresses_left = 0;
  for (const addrinfo* at = lookup->request.ar_result; at != nullptr; at = at->ai_next)
    ++addresses_left;
  Error last = unavailable(server, "the name has no address");
  for (const addrinfo* at = lookup->request.ar_result; at != nullptr; at = at->ai_next) {
    const auto now = Clock::now();
    auto socket = connect_to(server, *at, now + (deadline - now) / addresses_left--, interrupt);
    if (socket || socket.error().code == ErrorCode::kCancelled) return socket;
    last = std::move(socket).error();
  }
  return last;
}

}  // namespace muster
