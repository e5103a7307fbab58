#include "server/http/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

namespace muster::http {
namespace {

using asio::ip::tcp;

// Accepted in one go before other sockets get their turn.
constexpr int kBurst = 64;
constexpr std::chrono::milliseconds kPause{20};

Error bind_error(const std::string& address, int port, const std::string& call, int error) {
  const bool taken = error == EADDRINUSE;
  return Error{ErrorCode::kUnavailable,
               "listen on " + address + " port " + std::to_string(port) + ": " + call + ": " +
                   std::generic_category().message(error),
               taken ? "port_taken" : "bind_failed"};
}

int open_reserve() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int accept_one(int listener, tcp::endpoint& peer) {
  tcp::endpoint address;
  auto length = static_cast<socklen_t>(address.capacity());
  const int descriptor = ::accept4(listener, address.data(), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor >= 0) {
    address.resize(length);
    peer = address;
  }
  return descriptor;
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(asio::io_context& io, const std::string& address,
                                                 int port) {
  asio::error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  if (error || port < 0 || port > 65535) {
    return bind_error(address, port, "no IP address and port", EINVAL);
  }
  const tcp::endpoint endpoint(parsed, static_cast<unsigned short>(port));
  const int family = endpoint.protocol().family();
  const int descriptor = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  if (descriptor < 0) return bind_error(address, port, "socket", errno);
  const auto fail = [&](const std::string& call) -> Error {
    const int reason = errno;
    ::close(descriptor);
    return bind_error(address, port, call, reason);
  };
  // SO_REUSEADDR lets a restarted server have its port at once; a second one that listens still
  // fails (on Linux only SO_REUSEPORT would let it in).
  const int yes = 1;
  const int no = 0;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (family == AF_INET6) ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  if (::bind(descriptor, endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) {
    return fail("bind");
  }
  if (::listen(descriptor, SOMAXCONN) != 0) return fail("listen");
  tcp::endpoint bound;
  auto length = static_cast<socklen_t>(bound.capacity());
  if (::getsockname(descriptor, bound.data(), &length) != 0) return fail("getsockname");
  bound.resize(length);
  return std::unique_ptr<Listener>(new Listener(io, descriptor, endpoint.protocol(), bound.port()));
}

Listener::Listener(asio::io_context& io, int descriptor, const tcp& protocol, int port)
    : acceptor_(io, protocol, descriptor), timer_(io), port_(port), reserve_(open_reserve()) {}

Listener::~Listener() {
  close();
}

void Listener::start(Events events) {
  events_ = std::move(events);
  wait();
}

void Listener::close() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  timer_.cancel();
  if (reserve_ >= 0) ::close(std::exchange(reserve_, -1));
}

void Listener::wait() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](const asio::error_code& error) {
    if (error == asio::error::operation_aborted) return;  // closed: `this` may be gone
    on_event();
  });
}

// Whatever an event handler throws (no memory), there is a next try.
void Listener::on_event() {
  try {
    accept_some();
  } catch (const std::exception&) {
    pause();
  }
}

void Listener::accept_some() {
  if (!acceptor_.is_open()) return;
  for (int i = 0; i < kBurst; ++i) {
    tcp::endpoint peer;
    const int descriptor = accept_one(acceptor_.native_handle(), peer);
    if (descriptor >= 0) {
      events_.accepted(descriptor, peer);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    if (errno == EMFILE || errno == ENFILE) {
      const Shed shed = shed_one();
      if (shed == Shed::kOne) continue;
      if (shed == Shed::kNothingWaits) break;
      return pause();
    }
    if (errno == ENOBUFS || errno == ENOMEM) return pause();
    // Anything else concerns one peer (ECONNABORTED, EPROTO, a firewall's EPERM, ...; accept(2)).
  }
  wait();
}

Listener::Shed Listener::shed_one() {
  if (reserve_ < 0) reserve_ = open_reserve();
  if (reserve_ < 0) return Shed::kImpossible;
  ::close(std::exchange(reserve_, -1));
  tcp::endpoint peer;
  const int descriptor = accept_one(acceptor_.native_handle(), peer);
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  reserve_ = open_reserve();
  if (descriptor >= 0) {
    events_.turned_away(peer);
    return Shed::kOne;
  }
  // Another thread may have taken the descriptor in between: then there is nothing to do but wait.
  return error == EAGAIN || error == EWOULDBLOCK ? Shed::kNothingWaits : Shed::kImpossible;
}

void Listener::pause() {
  timer_.expires_after(kPause);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) on_event();
  });
}

}  // namespace muster::http
