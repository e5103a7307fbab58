#pragma once

#include <openssl/types.h>

#include "core/base/error.h"

// Private to certs.
namespace muster {

// Leaf and root take under 2 KiB; what is over this ends the handshake before it is parsed.
inline constexpr long kCertificateChainLimitBytes = 16 * 1024;

// What holds for every TLS context of ours, on either side: TLS 1.3 only, no resumption, small
// buffers.
Status apply_tls_settings(SSL_CTX* context);

}  // namespace muster
