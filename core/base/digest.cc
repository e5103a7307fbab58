#include "core/base/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>

#include "core/base/invariant.h"

namespace muster {

std::string Digest::hex() const {
  return hex_encode(bytes);
}

Result<Digest> Digest::from_hex(std::string_view text) {
  Digest digest;
  if (text.size() != 2 * digest.bytes.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("SHA-256 value \"{}\" has {} characters, {} are wanted",
                             printable(text, 80), text.size(), 2 * digest.bytes.size()),
                 "bad_digest"};
  }
  Result<Bytes> decoded = hex_decode(text);
  if (!decoded) {
    Error error = with_context(std::move(decoded).error(), "SHA-256 value");
    error.reason = "bad_digest";
    return error;
  }
  std::copy(decoded->begin(), decoded->end(), digest.bytes.begin());
  return digest;
}

struct Sha256::Context {
  Context() : evp(EVP_MD_CTX_new()) {
    if (evp == nullptr || EVP_DigestInit_ex(evp, EVP_sha256(), nullptr) != 1) {
      invariant_broken("OpenSSL offers no SHA-256");
    }
  }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  EVP_MD_CTX* evp;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(ByteView bytes) {
  if (context_ == nullptr) invariant_broken("Sha256 used after finish");
  if (EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) != 1) {
    invariant_broken("OpenSSL could not update a SHA-256");
  }
}

Digest Sha256::finish() {
  if (context_ == nullptr) invariant_broken("Sha256 finished twice");
  Digest digest;
  if (EVP_DigestFinal_ex(context_->evp, reinterpret_cast<unsigned char*>(digest.bytes.data()),
                         nullptr) != 1) {
    invariant_broken("OpenSSL could not finish a SHA-256");
  }
  context_.reset();
  return digest;
}

Digest sha256(ByteView bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

Digest sha256(std::string_view text) {
  return sha256(as_bytes(text));
}

}  // namespace muster
