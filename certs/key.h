#pragma once

#include <openssl/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace muster {

// An ECDSA P-256 private key. The bytes leave the object only through `write`, into a file of mode
// 0600. Movable. Signing is safe from several threads.
class PrivateKey {
 public:
  static Result<PrivateKey> generate();
  // Errors: kFailedPrecondition when the file is open to others (names file and wanted mode 0600);
  // kInvalidArgument.
  static Result<PrivateKey> read(const std::filesystem::path& file);
  // PKCS#8 PEM, mode 0600, durable.
  Status write(const std::filesystem::path& file) const;

  // ECDSA with SHA-256, DER form (RFC 3279 section 2.2.3).
  Result<Bytes> sign(std::string_view message) const;

  EVP_PKEY* native() const { return key_.get(); }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const;
  };
  explicit PrivateKey(EVP_PKEY* key) : key_(key) {}
  std::unique_ptr<EVP_PKEY, Free> key_;
};

// A certificate signing request (PKCS#10, PEM) for the key, self-signed, with an empty subject: the
// authority takes nothing from it but the public key.
Result<std::string> make_signing_request(const PrivateKey& key);

}  // namespace muster
