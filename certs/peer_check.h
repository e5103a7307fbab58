#pragma once

#include <string>

#include "certs/certificate.h"
#include "certs/openssl.h"

// Private to certs: how a peer's certificate is judged in a handshake.
namespace muster {

// Makes every connection of `context` judge its peer's certificate against `authority` alone:
//   - a chain of leaf and authority, no certificate between them;
//   - extended key usage PRESENT and right for the peer's part: clientAuth of a client, serverAuth
//     of a server (OpenSSL by itself lets a certificate without the extension pass);
//   - a store of its own, so that certificates which an HTTP library adds to the context's store
//     (the operating system's, say) are never trusted.
// The caller sets the verify mode. Works for a server's and for a client's context.
Status check_peers_against(SSL_CTX* context, const Certificate& authority);

// A store that trusts `authority` alone.
Result<StorePtr> make_store(const Certificate& authority);

// Which certificate the peer of `connection` failed with: "serial ..., valid from ... until ...;
// our clock says ...". Empty when none failed.
std::string rejected_peer(const SSL* connection);

}  // namespace muster
