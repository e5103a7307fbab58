#pragma once

#include <openssl/bio.h>
#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "certs/certificate.h"
#include "certs/tls.h"

namespace muster::http {

// The TLS set-up of a listener, and what its sockets share. Must outlive them.
class TlsServer {
 public:
  explicit TlsServer(TlsContext context);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  bool wants_certificate() const;

 private:
  friend class TlsSocket;
  TlsContext context_;
  BIO_METHOD* method_;
};

// The server's end of one TLS connection over a non-blocking TCP descriptor that somebody else
// owns. No call blocks: each does what is possible now and says what to wait for.
//
// Not asio::ssl::stream, because that keeps 70 KB of buffers for each connection however idle; here
// OpenSSL's buffers are released between records and an idle or waiting device costs 27 KB in all
// (measured over 2,000). Its own BIO sends with MSG_NOSIGNAL, so that a peer that went away is an
// error and no signal.
class TlsSocket {
 public:
  enum class Step {
    kDone,       // progress was made
    kWantRead,   // nothing now; call again when the descriptor is readable
    kWantWrite,  // ... writable
    kClosed,     // the peer said goodbye, or closed the TCP connection
    kFailed,     // see failure(); nothing more can be sent
  };
  struct Transfer {
    Step step = Step::kDone;
    std::size_t bytes = 0;  // > 0 exactly when step is kDone
  };

  TlsSocket(const TlsServer& server, int descriptor);
  ~TlsSocket();
  TlsSocket(const TlsSocket&) = delete;
  TlsSocket& operator=(const TlsSocket&) = delete;

  Step handshake();
  // One record at most. `into` holds 16 KiB or more, so that nothing stays behind in OpenSSL where
  // waiting for the descriptor would not show it.
  Transfer read(std::span<char> into);
  Transfer write(std::string_view from);
  // Best effort.
  void say_goodbye();

  std::optional<Certificate> peer_certificate() const;
  // Why the handshake, or the connection, failed: OpenSSL's reason, and for a refused certificate
  // its serial, its validity and this machine's clock.
  const std::string& failure() const { return failure_; }

 private:
  static void count_message(int is_write, int version, int type, const void* bytes,
                            std::size_t length, SSL* ssl, void* self);
  Step explain(int result);

  SSL* ssl_;
  std::string failure_;
  int key_updates_ = 0;
};

}  // namespace muster::http
