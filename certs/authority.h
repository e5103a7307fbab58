#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "certs/certificate.h"
#include "certs/identity.h"
#include "certs/key.h"
#include "core/base/error.h"

namespace muster {

// Muster's own certificate authority: one self-signed P-256 root (CA:TRUE, pathlen 0) that issues
// leaf certificates for the server, operators, auditors and devices. Times come from the caller.
// Safe to call from several threads.
class Authority {
 public:
  // A new root, valid for ten years from an hour before `now` (clocks differ).
  static Result<Authority> create(WallTime now);
  // Reads authority.pem and authority.key from a folder; the key must be 0600.
  static Result<Authority> read(const std::filesystem::path& folder);
  Status write(const std::filesystem::path& folder) const;

  const Certificate& certificate() const { return certificate_; }

  // A leaf with extended key usage clientAuth (serverAuth for Role::kServer, with `hosts` as DNS or
  // IP names), the identity as its one URI SAN, and a random 128-bit serial. Of the request only
  // the public key is used.
  // Errors: kInvalidArgument, reason "bad_request" (not one PEM PKCS#10 request, over 16 KiB, bad
  // self-signature, a key that is not EC P-256 or Ed25519), "bad_name", "bad_host" (neither a DNS
  // name nor an address, or given for another role than the server's), "bad_lifetime" (under an
  // hour); kFailedPrecondition, reason "authority_expired".
  Result<Certificate> issue(std::string_view signing_request_pem, const Identity& identity,
                            WallTime now, std::chrono::hours lifetime,
                            const std::vector<std::string>& hosts = {}) const;

 private:
  Authority(Certificate certificate, PrivateKey key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}
  Certificate certificate_;
  PrivateKey key_;
};

// A key, its request and its certificate in one go, for init and for tests.
struct KeyPair {
  PrivateKey key;
  Certificate certificate;
};
Result<KeyPair> issue_key_pair(const Authority& authority, const Identity& identity, WallTime now,
                               std::chrono::hours lifetime,
                               const std::vector<std::string>& hosts = {});

}  // namespace muster
