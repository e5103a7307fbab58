#include "server/http/connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <exception>
#include <utility>

#include "core/base/bytes.h"
#include "server/http/connection_disk.h"

namespace muster::http {
namespace {

// After the last word: how long, and how many bytes, we listen so that the peer can read it.
// Closing at once with bytes unread would make the kernel send a reset that overtakes the response.
constexpr std::chrono::milliseconds kLingerTime{2'000};
constexpr std::uint64_t kLingerBytes = 4 << 20;

}  // namespace

Connection::Connection(Door& door, asio::ip::tcp::socket socket, std::string address, int port)
    : door_(door),
      socket_(std::move(socket)),
      tls_(door.tls, socket_.native_handle()),
      timer_(*door.io),
      meter_(door.limits.min_rate_bytes_per_s, door.limits.rate_window) {
  caller_.peer.address = std::move(address);
  caller_.peer.port = port;
  caller_.certificate_wanted = door.tls.wants_certificate();
}

void Connection::start() {
  began_ = Clock::now();
  guarded([this] {
    set_deadline(began_ + door_.limits.handshake);
    handshake();
  });
}

void Connection::wait_readable() {
  if (std::exchange(waits_readable_, true)) return;
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const asio::error_code&) {
                       self->waits_readable_ = false;
                       self->guarded([&] { self->on_ready(); });
                     });
}

void Connection::wait_writable() {
  if (std::exchange(waits_writable_, true)) return;
  socket_.async_wait(asio::ip::tcp::socket::wait_write,
                     [self = shared_from_this()](const asio::error_code&) {
                       self->waits_writable_ = false;
                       self->guarded([&] { self->on_ready(); });
                     });
}

void Connection::wait_for(TlsSocket::Step step) {
  if (step == TlsSocket::Step::kWantWrite) {
    wait_writable();
  } else {
    wait_readable();
  }
}

void Connection::set_deadline(Clock::time_point when) {
  const std::uint64_t generation = ++timer_generation_;
  timer_.expires_at(when);
  timer_.async_wait([self = shared_from_this(), generation](const asio::error_code& error) {
    if (error || generation != self->timer_generation_) return;
    self->guarded([&] { self->on_deadline(); });
  });
}

// Each phase tries before it waits, so an event that belongs to an earlier phase does no harm.
void Connection::on_ready() {
  switch (phase_) {
    case Phase::kHandshake:
      return handshake();
    case Phase::kHead:
      return read_head();
    case Phase::kBody:
      return read_body();
    case Phase::kHandler:
      return watch();
    case Phase::kContinue:
    case Phase::kWriting:
      return write();
    case Phase::kLinger:
      return drain();
    case Phase::kOpening:
    case Phase::kSpooling:
    case Phase::kReadingFile:
    case Phase::kClosed:
      return;
  }
}

void Connection::on_deadline() {
  const auto now = Clock::now();
  switch (phase_) {
    case Phase::kHandshake:
      log(0, "tls: handshake deadline");
      return close({});
    case Phase::kHead:
      if (in_.empty() && requests_ == 0) log(0, "no request before the deadline");
      if (in_.empty()) return close({});
      return refuse({408, "head_timeout", "The request's head did not arrive in time."});
    case Phase::kBody:
      if (meter_.next_window(now)) return set_deadline(meter_.window_end());
      return refuse({408, "body_too_slow", "The request's body arrived too slowly."});
    case Phase::kContinue:
    case Phase::kWriting:
      if (meter_.next_window(now)) return set_deadline(meter_.window_end());
      return close("the peer read too slowly");
    case Phase::kHandler: {
      auto response =
          Response::problem(503, "answer_timeout", "The server is too busy; try again.");
      response.headers.emplace_back("Retry-After", "2");
      responder_->answered = true;  // what the handler says from now on is dropped
      return respond(std::move(response));
    }
    case Phase::kLinger:
      return close({});
    case Phase::kOpening:  // our own disk's time; the clock goes on when it is done
    case Phase::kSpooling:
    case Phase::kReadingFile:
    case Phase::kClosed:
      return;
  }
}

void Connection::handshake() {
  const auto step = tls_.handshake();
  if (step == TlsSocket::Step::kWantRead || step == TlsSocket::Step::kWantWrite) {
    return wait_for(step);
  }
  if (step != TlsSocket::Step::kDone) {
    log(0, "tls: " + tls_.failure());
    return linger();  // the alert is on its way
  }
  if (caller_.certificate_wanted) {
    caller_.peer.certificate = tls_.peer_certificate();
    auto identity =
        caller_.peer.certificate
            ? caller_.peer.certificate->identity()
            : Result<Identity>(Error{ErrorCode::kUnauthenticated, "No certificate.", {}});
    if (identity) {
      caller_.peer.identity = *std::move(identity);
    } else {
      caller_.identity_problem = identity.error().message;
    }
  }
  begin_request();
}

void Connection::log(int status, std::string_view problem) {
  record_.peer = caller_.peer.address + ":" + std::to_string(caller_.peer.port);
  if (caller_.peer.identity) {
    record_.caller =
        std::string(to_string(caller_.peer.identity->role)) + " " + caller_.peer.identity->name;
  }
  record_.status = status;
  record_.took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began_);
  record_.problem = printable(problem, 400);
  door_.write_log(record_);
  record_ = {};
}

void Connection::linger() {
  phase_ = Phase::kLinger;
  tls_.say_goodbye();
  asio::error_code error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  if (error) return close({});
  set_deadline(Clock::now() + kLingerTime);
  drain();
}

void Connection::drain() {
  while (drained_bytes_ < kLingerBytes) {
    const ssize_t got =
        ::recv(socket_.native_handle(), door_.scratch.data(), door_.scratch.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return wait_readable();
    if (got <= 0) break;
    drained_bytes_ += static_cast<std::uint64_t>(got);
  }
  close({});
}

void Connection::close_if_idle() {
  if (phase_ == Phase::kHandshake || (phase_ == Phase::kHead && in_.empty())) {
    if (phase_ == Phase::kHead) tls_.say_goodbye();
    close({});
  }
}

void Connection::close(std::string_view why) {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  const auto self = shared_from_this();  // through `forget`
  if (responder_ != nullptr) responder_->peer_gone = true;
  if (!record_.request_id.empty()) log(0, why.empty() ? "closed" : why);
  ++timer_generation_;
  timer_.cancel();
  asio::error_code ignored;
  socket_.close(ignored);
  // Their files are removed or closed where the disk may be slow.
  if (spool_ != nullptr) door_.disk.post([spool = std::move(spool_)] {});
  if (file_ != nullptr) door_.disk.post([file = std::move(file_)] {});
  request_.reset();
  in_ = {};
  out_ = {};
  piece_ = {};
  door_.forget(self);
}

}  // namespace muster::http
