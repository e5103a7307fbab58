#pragma once

#include <openssl/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "edge_client/transport.h"

namespace muster {

// Lets one thread end the network wait of another: a flag with a descriptor that can be polled
// beside a socket. Owned by a Transport. `request` from any thread; the rest from the thread that
// makes calls.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  void request();
  bool requested() const { return requested_.load(); }
  // Whether one was requested; forgets it.
  bool take();
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
  std::mutex mutex_;
  std::atomic<bool> requested_{false};
};

// The time that one call may take. No wait is longer than `idle` (the first byte of the reply:
// `idle` and `first_wait`), and the whole call no longer than that plus what its bytes take at the
// minimum rate: so a trickle ends too.
class CallClock {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::int64_t kMinimumBytesPerSecond = 1024;

  CallClock(std::chrono::milliseconds idle, std::chrono::milliseconds first_wait);

  void sent(std::size_t bytes);
  void received(std::size_t bytes);
  std::uint64_t bytes_received() const { return received_; }
  Clock::time_point deadline() const;

 private:
  std::chrono::milliseconds idle_, first_wait_;
  Clock::time_point start_, last_;
  std::uint64_t sent_ = 0, received_ = 0;
};

// One TLS 1.3 connection over TCP, its server verified against the context's authority and the host
// it was asked for. Owned by a Transport; one thread at a time. After any error it is only good for
// destruction.
//
// Errors of all: kUnauthenticated (reasons "server_not_verified", "certificate_rejected"),
// kUnavailable (reason "connection_closed" when the peer closed or reset), kDeadlineExceeded,
// kCancelled (interrupted).
class TlsConnection {
 public:
  // Looks the name up, connects, shakes hands: all within `timeout`. `interrupt` must outlive the
  // connection.
  static Result<std::unique_ptr<TlsConnection>> open(SSL_CTX* context, const ServerUrl& server,
                                                     std::chrono::milliseconds timeout,
                                                     Interrupt& interrupt);
  ~TlsConnection();

  // At least one byte; 0 when the peer ended the connection in order.
  Result<std::size_t> read(char* buffer, std::size_t size, CallClock& clock);
  // Everything. When a reply arrives before all is sent, the rest is dropped and the call succeeds:
  // the reply says why.
  Status write(const char* data, std::size_t size, CallClock& clock);

  // A reply came before the request was out; the connection cannot carry another call.
  bool early_reply() const { return early_reply_; }
  // Between two calls: whether the peer has neither closed nor said anything.
  bool is_idle();
  int descriptor() const { return socket_; }

 private:
  friend class HandshakeNotes;
  struct FreeSsl {
    void operator()(SSL* ssl) const;
  };

  TlsConnection(int socket, Interrupt& interrupt) : socket_(socket), interrupt_(interrupt) {}
  Status start(SSL_CTX* context, const ServerUrl& server);
  Status shake_hands(CallClock::Clock::time_point deadline);
  Status send_pending(CallClock::Clock::time_point deadline, bool watch_for_reply,
                      CallClock* clock);
  Result<std::size_t> receive(CallClock::Clock::time_point deadline, CallClock* clock);
  bool reply_is_waiting();
  Error failure(std::string_view doing) const;

  int socket_;
  Interrupt& interrupt_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
  std::string peer_;  // for messages
  bool established_ = false;
  bool early_reply_ = false;
  bool peer_closed_ = false;
  int alert_ = -1;                      // the fatal alert that the peer sent
  std::optional<Certificate> refused_;  // the certificate that we did not accept
};

}  // namespace muster
