#include "certs/signing_request.h"

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/params.h>

#include <array>
#include <string>
#include <utility>

#include "certs/pem.h"

namespace muster {
namespace {

constexpr std::string_view kReason = "bad_request";

Error bad_request(std::string_view problem) {
  // What OpenSSL says about a stranger's bytes is kept: it names no secret.
  const std::string cause = drain_openssl_errors();
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("signing request: {}{}{}", problem, cause.empty() ? "" : ": ", cause),
               std::string(kReason)};
}

std::string describe_key(EVP_PKEY* key) {
  const char* name = EVP_PKEY_get0_type_name(key);
  return fmt::format("{} of {} bits", name != nullptr ? name : "unknown kind",
                     EVP_PKEY_get_bits(key));
}

Result<KeyPtr> rebuild_p256(EVP_PKEY* key) {
  // An uncompressed point of P-256 has 65 bytes.
  std::array<unsigned char, 65> point{};
  std::size_t size = 0;
  if (EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size(),
                                      &size) != 1) {
    return bad_request("unreadable P-256 key");
  }
  const KeyContextPtr context(EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  std::string group = SN_X9_62_prime256v1;
  const std::array parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group.data(), group.size()),
      OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point.data(), size),
      OSSL_PARAM_construct_end()};
  EVP_PKEY* made = nullptr;
  if (!context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_PUBLIC_KEY,
                        const_cast<OSSL_PARAM*>(parameters.data())) != 1) {
    return bad_request("unusable P-256 key");
  }
  KeyPtr rebuilt(made);
  // On the curve and not the point at infinity.
  const KeyContextPtr check(EVP_PKEY_CTX_new_from_pkey(nullptr, rebuilt.get(), nullptr));
  if (!check || EVP_PKEY_public_check(check.get()) != 1) {
    return bad_request("the P-256 key is no valid point");
  }
  return rebuilt;
}

Result<KeyPtr> rebuild_ed25519(EVP_PKEY* key) {
  std::array<unsigned char, 32> raw{};
  std::size_t size = raw.size();
  if (EVP_PKEY_get_raw_public_key(key, raw.data(), &size) != 1) {
    return bad_request("unreadable Ed25519 key");
  }
  KeyPtr rebuilt(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw.data(), size));
  if (!rebuilt) return bad_request("unusable Ed25519 key");
  return rebuilt;
}

}  // namespace

Result<KeyPtr> read_signing_request(std::string_view pem) {
  auto der = pem_decode("CERTIFICATE REQUEST", pem);
  if (!der) return bad_request(der.error().message);
  const auto* at = reinterpret_cast<const unsigned char*>(der->data());
  const unsigned char* const end = at + der->size();
  const SigningRequestPtr request(d2i_X509_REQ(nullptr, &at, static_cast<long>(der->size())));
  if (!request) return bad_request("not PKCS#10");
  if (at != end) return bad_request(fmt::format("{} bytes follow the PKCS#10 structure", end - at));

  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  if (key == nullptr) return bad_request("unreadable public key");
  // The kind comes before the signature: a check with an RSA key of any size is not worth its time.
  const bool ed25519 = EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519;
  if (!ed25519 && !is_p256(key)) {
    return bad_request(fmt::format("the key is {}; wanted EC P-256 or Ed25519", describe_key(key)));
  }
  if (X509_REQ_verify(request.get(), key) != 1) {
    return bad_request("the request is not signed with its own key");
  }
  return ed25519 ? rebuild_ed25519(key) : rebuild_p256(key);
}

}  // namespace muster
