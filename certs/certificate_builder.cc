#include "certs/certificate_builder.h"

#include <arpa/inet.h>

#include <array>

namespace muster {
namespace {

bool set_random_serial(X509* certificate) {
  const BignumPtr number(BN_new());
  // At most 17 of the 20 bytes that RFC 5280, 4.1.2.2 allows.
  if (!number || BN_rand(number.get(), 128, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) != 1) return false;
  if (BN_is_zero(number.get())) return false;
  return BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool push_name(GENERAL_NAMES* names, int type, const void* data, std::size_t size) {
  const int kind = type == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING;
  Asn1StringPtr value(ASN1_STRING_type_new(kind));
  GeneralNamePtr name(GENERAL_NAME_new());
  if (!value || !name) return false;
  if (ASN1_STRING_set(value.get(), data, static_cast<int>(size)) != 1) return false;
  GENERAL_NAME_set0_value(name.get(), type, value.release());
  if (sk_GENERAL_NAME_push(names, name.get()) <= 0) return false;
  static_cast<void>(name.release());  // the list owns it now
  return true;
}

bool push_host(GENERAL_NAMES* names, const std::string& host) {
  std::array<unsigned char, 16> address{};
  if (inet_pton(AF_INET, host.c_str(), address.data()) == 1) {
    return push_name(names, GEN_IPADD, address.data(), 4);
  }
  if (inet_pton(AF_INET6, host.c_str(), address.data()) == 1) {
    return push_name(names, GEN_IPADD, address.data(), 16);
  }
  return push_name(names, GEN_DNS, host.data(), host.size());
}

}  // namespace

template <typename Step>
void CertificateBuilder::step(std::string_view what, Step run) {
  if (!status_) return;
  if (!run()) status_ = openssl_error("build certificate: " + std::string(what));
}

CertificateBuilder::CertificateBuilder(X509* issuer) : certificate_(X509_new()), issuer_(issuer) {
  step("allocate", [&] { return certificate_ != nullptr; });
  step("version", [&] { return X509_set_version(certificate_.get(), X509_VERSION_3) == 1; });
  step("serial", [&] { return set_random_serial(certificate_.get()); });
  if (issuer != nullptr) {
    step("issuer", [&] {
      return X509_set_issuer_name(certificate_.get(), X509_get_subject_name(issuer)) == 1;
    });
  }
}

void CertificateBuilder::set_validity(WallTime not_before, WallTime not_after) {
  using std::chrono::system_clock;
  step("validity", [&] {
    X509* certificate = certificate_.get();
    return ASN1_TIME_set(X509_getm_notBefore(certificate), system_clock::to_time_t(not_before)) &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), system_clock::to_time_t(not_after));
  });
}

void CertificateBuilder::set_common_name(std::string_view name) {
  step("subject", [&] {
    X509_NAME* subject = X509_get_subject_name(certificate_.get());
    return X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(name.data()),
                                      static_cast<int>(name.size()), -1, 0) == 1 &&
           (issuer_ != nullptr || X509_set_issuer_name(certificate_.get(), subject) == 1);
  });
}

void CertificateBuilder::set_public_key(EVP_PKEY* key) {
  step("public key", [&] { return X509_set_pubkey(certificate_.get(), key) == 1; });
}

void CertificateBuilder::add_extension(int nid, const char* value) {
  step(OBJ_nid2sn(nid), [&] {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer(), certificate_.get(), nullptr, nullptr, 0);
    const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
    return extension && X509_add_ext(certificate_.get(), extension.get(), -1) == 1;
  });
}

void CertificateBuilder::add_alternative_names(const std::string& uri,
                                               const std::vector<std::string>& hosts) {
  step("subjectAltName", [&] {
    const GeneralNamesPtr names(GENERAL_NAMES_new());
    if (!names || !push_name(names.get(), GEN_URI, uri.data(), uri.size())) return false;
    for (const auto& host : hosts) {
      if (!push_host(names.get(), host)) return false;
    }
    return X509_add1_ext_i2d(certificate_.get(), NID_subject_alt_name, names.get(), 0,
                             X509V3_ADD_DEFAULT) == 1;
  });
}

Result<Certificate> CertificateBuilder::sign(EVP_PKEY* key) {
  step("sign", [&] { return X509_sign(certificate_.get(), key, EVP_sha256()) > 0; });
  MUSTER_TRY_STATUS(status_);
  return Certificate::from_native(certificate_.get());
}

}  // namespace muster
