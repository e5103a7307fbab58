#pragma once

#include <openssl/types.h>

#include <optional>
#include <string>

namespace muster {

// Who is on the other side of a connection.
enum class TlsPeer { kServer, kClient };

// Why a TLS connection failed, for a log line and for a decision.
struct TlsFailure {
  // One sentence: "the server rejected our certificate: certificate expired (alert 45)".
  std::string message;
  // The alert that the peer sent (RFC 8446 section 6), if one came.
  std::optional<int> alert;
  // The peer refused our certificate, or wants one: trying again with the same one is of no use.
  bool certificate_rejected = false;
  // We refused the peer's certificate.
  bool peer_refused = false;
};

// Takes the cause of a failure out of this thread's OpenSSL error queue, which is empty afterwards.
// To be called on the thread of the failed call, before another OpenSSL call. In TLS 1.3 a client's
// handshake is over before the server has judged its certificate: the server's alert comes with the
// first read.
//   connection   gives our own verdict on the peer's certificate, its serial and times; may be null
//   first_error  an OpenSSL error code that a library took out of the queue already (Asio keeps one
//                in its error_code's value); 0 when there is none
TlsFailure take_tls_failure(TlsPeer peer, const SSL* connection = nullptr,
                            unsigned long first_error = 0);

// The message of `take_tls_failure`.
std::string describe_tls_failure(TlsPeer peer, const SSL* connection = nullptr,
                                 unsigned long first_error = 0);

}  // namespace muster
