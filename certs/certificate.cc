#include "certs/certificate.h"

#include <fmt/format.h>
#include <openssl/err.h>

#include <algorithm>
#include <ctime>

#include "certs/openssl.h"
#include "certs/pem.h"
#include "core/base/file.h"
#include "core/base/invariant.h"

namespace muster {
namespace {

constexpr std::string_view kLabel = "CERTIFICATE";

Bytes to_der(X509* certificate) {
  unsigned char* data = nullptr;
  const int size = i2d_X509(certificate, &data);
  const OpenSslBytesPtr owner(data);
  if (size <= 0) invariant_broken("a certificate without an encoding");
  const ByteView der = std::as_bytes(std::span(data, static_cast<std::size_t>(size)));
  return Bytes(der.begin(), der.end());
}

// X.509 knows the years 0 to 9999, the clock's nanoseconds end in 2262: what lies outside becomes
// the clock's end.
WallTime to_wall_time(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    ERR_clear_error();
    return WallTime::min();
  }
  const std::chrono::seconds seconds(timegm(&parts));
  using std::chrono::duration_cast;
  constexpr auto kLow = duration_cast<std::chrono::seconds>(WallTime::duration::min());
  constexpr auto kHigh = duration_cast<std::chrono::seconds>(WallTime::duration::max());
  if (seconds <= kLow) return WallTime::min();
  if (seconds >= kHigh) return WallTime::max();
  return WallTime(seconds);
}

Error bad_identity(std::string_view problem) {
  return Error{ErrorCode::kUnauthenticated,
               fmt::format("certificate {}; wanted exactly one URI in subjectAltName", problem),
               "bad_identity"};
}

}  // namespace

Certificate Certificate::from_native(X509* certificate) {
  X509_up_ref(certificate);
  return Certificate(std::shared_ptr<X509>(certificate, X509_free));
}

Result<Certificate> Certificate::from_pem(std::string_view pem) {
  auto der = pem_decode(kLabel, pem);
  if (!der) return with_context(std::move(der).error(), "certificate");
  const auto* at = reinterpret_cast<const unsigned char*>(der->data());
  const unsigned char* const end = at + der->size();
  const X509Ptr certificate(d2i_X509(nullptr, &at, static_cast<long>(der->size())));
  if (!certificate) {
    return openssl_error("certificate: not X.509", ErrorCode::kInvalidArgument);
  }
  if (at != end) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("certificate: {} bytes follow the X.509 structure; wanted none", end - at)};
  }
  // The key is decoded now, so that a certificate in hand always has one.
  if (X509_get0_pubkey(certificate.get()) == nullptr) {
    return openssl_error("certificate: unreadable public key", ErrorCode::kInvalidArgument);
  }
  return from_native(certificate.get());
}

Result<Certificate> Certificate::read(const std::filesystem::path& file) {
  MUSTER_TRY(const std::string pem, read_file(file, kPemLimitBytes));
  auto certificate = from_pem(pem);
  if (!certificate) return with_context(std::move(certificate).error(), "read " + file.string());
  return certificate;
}

std::string Certificate::pem() const {
  return pem_encode(kLabel, to_der(certificate_.get()));
}

Digest Certificate::fingerprint() const {
  return sha256(ByteView(to_der(certificate_.get())));
}

Digest Certificate::public_key_hash() const {
  unsigned char* data = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate_.get()), &data);
  const OpenSslBytesPtr owner(data);
  if (size <= 0) invariant_broken("a public key without an encoding");
  return sha256(std::as_bytes(std::span(data, static_cast<std::size_t>(size))));
}

std::string Certificate::serial() const {
  const BignumPtr number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate_.get()), nullptr));
  if (!number) {
    ERR_clear_error();
    return {};
  }
  // At least one byte, so that a serial of 0 is "00".
  Bytes bytes(static_cast<std::size_t>(std::max(1, BN_num_bytes(number.get()))));
  BN_bn2binpad(number.get(), reinterpret_cast<unsigned char*>(bytes.data()),
               static_cast<int>(bytes.size()));
  return fmt::format("{}{}", BN_is_negative(number.get()) == 1 ? "-" : "", hex_encode(bytes));
}

WallTime Certificate::not_before() const {
  return to_wall_time(X509_get0_notBefore(certificate_.get()));
}

WallTime Certificate::not_after() const {
  return to_wall_time(X509_get0_notAfter(certificate_.get()));
}

Result<Identity> Certificate::identity() const {
  int found = 0;
  const GeneralNamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate_.get(), NID_subject_alt_name, &found, nullptr)));
  if (!names) {
    ERR_clear_error();
    if (found == -1) return bad_identity("has no subjectAltName");
    return bad_identity(found == -2 ? "has several subjectAltNames"
                                    : "has a damaged subjectAltName");
  }
  const ASN1_IA5STRING* uri = nullptr;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    if (uri != nullptr) return bad_identity("names several URIs");
    uri = name->d.uniformResourceIdentifier;
  }
  if (uri == nullptr) return bad_identity("names no URI");
  // With its length, so that a NUL byte does not end the name early.
  const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                              static_cast<std::size_t>(ASN1_STRING_length(uri)));
  return Identity::from_uri(text);
}

bool Certificate::verify(std::string_view message, ByteView signature) const {
  EVP_PKEY* key = X509_get0_pubkey(certificate_.get());
  const DigestContextPtr context(EVP_MD_CTX_new());
  if (key == nullptr || !context) {
    ERR_clear_error();
    return false;
  }
  // Ed25519 (RFC 8032) hashes by itself; of EC keys only P-256 signs for us.
  const bool ed25519 = EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519;
  if (!ed25519 && !is_p256(key)) return false;
  const EVP_MD* hash = ed25519 ? nullptr : EVP_sha256();
  const bool good =
      EVP_DigestVerifyInit(context.get(), nullptr, hash, nullptr, key) == 1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(), reinterpret_cast<const unsigned char*>(message.data()),
                       message.size()) == 1;
  ERR_clear_error();
  return good;
}

}  // namespace muster
