#pragma once

#include <openssl/types.h>

#include <memory>
#include <optional>
#include <string>

#include "certs/certificate.h"
#include "certs/key.h"
#include "core/base/error.h"

namespace muster {

struct FreeTlsContext {
  void operator()(SSL_CTX* context) const;
};
using TlsContext = std::unique_ptr<SSL_CTX, FreeTlsContext>;

// A server's TLS set-up: TLS 1.3 only, no session tickets or cache (a resumed session would skip
// the certificate checks), no renegotiation, no early data; sends leaf and CA certificate (a new
// device pins the latter).
//   client_authority  set: a client certificate of this CA with extended key usage clientAuth is
//                     required in the handshake, chain leaf + CA, the operating system's trust
//                     store never loaded; null: none is asked for
// Expired certificates give alert certificate_expired (45), another CA unknown_ca (48), none
// certificate_required (116), serverAuth only or no EKU at all unsupported_certificate (43).
Result<TlsContext> make_server_tls(const Certificate& leaf, const PrivateKey& key,
                                   const Certificate& own_authority,
                                   const Certificate* client_authority);

// Applies the client's side to a context that an HTTP library owns: TLS 1.3 only, trust in
// `authority` alone, EKU serverAuth required, and the client's own certificate when there is one.
// Host name checks are per connection.
Status configure_client_tls(SSL_CTX* context, const Certificate& authority, const Certificate* leaf,
                            const PrivateKey* key);

// Connects, reads the certificates that the server presents, and returns the one with the wanted
// fingerprint: how a new device finds the authority named in its enrolment code. Sends nothing but
// the handshake. The wait has an end: `timeout_ms`. The system's name resolution comes before that
// and has its own limits. The server's own certificate must be from that authority, for this host
// and valid now, so that a wrong set-up shows here and not at the first request.
// Errors: kUnavailable (no connection; reason "timeout" or "no_tls"); kUnauthenticated, reason
// "wrong_authority" or "server_not_verified"; kInvalidArgument (host or port).
Result<Certificate> fetch_authority(const std::string& host, int port, const Digest& fingerprint,
                                    int timeout_ms);

}  // namespace muster
