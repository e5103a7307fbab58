#pragma once

#include <string_view>

#include "certs/openssl.h"
#include "core/base/error.h"

// Private to certs: what the authority takes from a stranger's request.
namespace muster {

// The public key of a PEM PKCS#10 request (RFC 2986), and nothing else of it. The key is rebuilt
// from its value (curve point or Ed25519 bytes), so that no parameter or encoding of the sender's
// choice gets into a certificate. Errors: kInvalidArgument, reason "bad_request": see
// Authority::issue.
Result<KeyPtr> read_signing_request(std::string_view pem);

}  // namespace muster
