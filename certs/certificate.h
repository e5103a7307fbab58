#pragma once

#include <openssl/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "certs/identity.h"
#include "core/base/bytes.h"
#include "core/base/digest.h"
#include "core/base/error.h"

namespace muster {

using WallTime = std::chrono::system_clock::time_point;

// An X.509 certificate. Immutable, cheap to copy (reference counted by OpenSSL), safe to read from
// any thread.
class Certificate {
 public:
  // One PEM certificate, nothing after it. Errors: kInvalidArgument.
  static Result<Certificate> from_pem(std::string_view pem);
  static Result<Certificate> read(const std::filesystem::path& file);
  // Takes a new reference.
  static Certificate from_native(X509* certificate);

  std::string pem() const;
  // SHA-256 of the DER form.
  Digest fingerprint() const;
  // SHA-256 of the public key's SubjectPublicKeyInfo (DER).
  Digest public_key_hash() const;
  std::string serial() const;  // hex
  WallTime not_before() const;
  WallTime not_after() const;

  // From exactly one URI SAN. Errors: kUnauthenticated, reason "bad_identity".
  Result<Identity> identity() const;

  // Whether `signature` over `message` was made with this certificate's key: ECDSA with SHA-256 in
  // DER form for a P-256 key, RFC 8032 for an Ed25519 one. False for every other kind of key.
  bool verify(std::string_view message, ByteView signature) const;

  X509* native() const { return certificate_.get(); }

 private:
  explicit Certificate(std::shared_ptr<X509> certificate) : certificate_(std::move(certificate)) {}
  std::shared_ptr<X509> certificate_;
};

}  // namespace muster
