#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "certs/certificate.h"
#include "certs/openssl.h"

// Private to certs.
namespace muster {

// Puts an X.509 v3 certificate together (RFC 5280), field by field, and signs it. Made for one
// certificate: create, the setters in any order, then `sign` once. Not for two threads at a time.
// The first failure is kept, later calls do nothing, and `sign` returns it.
class CertificateBuilder {
 public:
  // Version 3 and a random positive 128-bit serial. `issuer` is null for a self-signed certificate;
  // else it outlives the builder.
  explicit CertificateBuilder(X509* issuer);

  void set_validity(WallTime not_before, WallTime not_after);
  // One CN. Self-signed certificates get it as issuer too.
  void set_common_name(std::string_view name);
  void set_public_key(EVP_PKEY* key);
  // `value` in OpenSSL's own notation ("critical,CA:FALSE"): constants of ours only, never text
  // from outside. Key identifiers want the public key to be set before.
  void add_extension(int nid, const char* value);
  // subjectAltName: one URI, and the hosts as DNS names, numeric ones as IP addresses.
  void add_alternative_names(const std::string& uri, const std::vector<std::string>& hosts);

  Result<Certificate> sign(EVP_PKEY* key);

 private:
  template <typename Step>
  void step(std::string_view what, Step run);
  X509* issuer() { return issuer_ != nullptr ? issuer_ : certificate_.get(); }

  X509Ptr certificate_;
  X509* issuer_;
  Status status_;
};

}  // namespace muster
