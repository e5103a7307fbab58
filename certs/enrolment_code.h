#pragma once

#include <string>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/error.h"

namespace muster {

// What an operator hands to a device owner: a one-time secret of 128 bits and the fingerprint of
// the authority, so that the device can tell the right server from an impostor before it sends the
// secret. Text form, all lower case:
//   muster1-<26 base32 characters>-<64 hex digits>
struct EnrolmentCode {
  std::string secret;  // 26 characters of RFC 4648 base32, lower case, no padding
  Digest authority;    // Certificate::fingerprint of the CA

  // A secret from the system's random source. Errors: kInternal when that fails.
  static Result<EnrolmentCode> generate(const Digest& authority);
  std::string text() const;
  // Errors: kInvalidArgument, reason "bad_code"; the message does not repeat the secret.
  static Result<EnrolmentCode> parse(std::string_view text);

  // What the server stores: SHA-256 over "muster-enrolment-v1" and the secret.
  static Digest hash_secret(std::string_view secret);
};

}  // namespace muster
