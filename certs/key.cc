#include "certs/key.h"

#include <fmt/format.h>

#include "certs/openssl.h"
#include "certs/pem.h"
#include "core/base/file.h"

namespace muster {
namespace {

constexpr std::string_view kKeyLabel = "PRIVATE KEY";

Error bad_key(const std::filesystem::path& file, std::string_view problem) {
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("private key {}: {}; wanted an EC P-256 key in PKCS#8 PEM form",
                           file.string(), problem)};
}

}  // namespace

void PrivateKey::Free::operator()(EVP_PKEY* key) const {
  EVP_PKEY_free(key);
}

Result<PrivateKey> PrivateKey::generate() {
  EVP_PKEY* key = EVP_EC_gen(SN_X9_62_prime256v1);
  if (key == nullptr) return openssl_error("generate a P-256 key");
  return PrivateKey(key);
}

Result<PrivateKey> PrivateKey::read(const std::filesystem::path& file) {
  if (auto is_private = check_private_file(file); !is_private) {
    Error error = with_context(std::move(is_private).error(), "private key");
    if (error.code == ErrorCode::kPermissionDenied) error.code = ErrorCode::kFailedPrecondition;
    return error;
  }
  MUSTER_TRY(std::string pem, read_file(file, kPemLimitBytes));
  const WipeAtEnd wipe_pem(pem);
  auto decoded = pem_decode(kKeyLabel, pem);
  if (!decoded) return bad_key(file, decoded.error().message);
  Bytes& der = *decoded;
  const WipeAtEnd wipe_der(der);

  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const unsigned char* const end = at + der.size();
  const Pkcs8Ptr info(d2i_PKCS8_PRIV_KEY_INFO(nullptr, &at, static_cast<long>(der.size())));
  if (!info || at != end) {
    drain_openssl_errors();
    return bad_key(file, "the content is not PKCS#8");
  }
  KeyPtr key(EVP_PKCS82PKEY(info.get()));
  if (!key || !is_p256(key.get())) {
    drain_openssl_errors();
    return bad_key(file, "a key of another kind");
  }
  return PrivateKey(key.release());
}

Status PrivateKey::write(const std::filesystem::path& file) const {
  const Pkcs8Ptr info(EVP_PKEY2PKCS8(key_.get()));
  if (!info) return openssl_error("encode private key " + file.string());
  unsigned char* data = nullptr;
  const int size = i2d_PKCS8_PRIV_KEY_INFO(info.get(), &data);
  if (size <= 0) return openssl_error("encode private key " + file.string());
  const ByteView der = std::as_bytes(std::span(data, static_cast<std::size_t>(size)));
  std::string pem = pem_encode(kKeyLabel, der);
  OPENSSL_clear_free(data, static_cast<std::size_t>(size));
  const WipeAtEnd wipe(pem);
  return write_file_durably(file, as_bytes(pem), 0600);
}

Result<Bytes> PrivateKey::sign(std::string_view message) const {
  const DigestContextPtr context(EVP_MD_CTX_new());
  if (!context) return openssl_error("sign");
  if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get()) != 1) {
    return openssl_error("sign");
  }
  const auto* data = reinterpret_cast<const unsigned char*>(message.data());
  std::size_t size = 0;
  if (EVP_DigestSign(context.get(), nullptr, &size, data, message.size()) != 1) {
    return openssl_error("sign");
  }
  Bytes signature(size);
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, data,
                     message.size()) != 1) {
    return openssl_error("sign");
  }
  signature.resize(size);
  return signature;
}

Result<std::string> make_signing_request(const PrivateKey& key) {
  const SigningRequestPtr request(X509_REQ_new());
  if (!request || X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.native()) != 1 ||
      X509_REQ_sign(request.get(), key.native(), EVP_sha256()) <= 0) {
    return openssl_error("make a signing request");
  }
  unsigned char* data = nullptr;
  const int size = i2d_X509_REQ(request.get(), &data);
  if (size <= 0) return openssl_error("encode a signing request");
  const OpenSslBytesPtr owner(data);
  return pem_encode("CERTIFICATE REQUEST",
                    std::as_bytes(std::span(data, static_cast<std::size_t>(size))));
}

}  // namespace muster
