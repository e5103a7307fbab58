#include "certs/pem.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/pem.h>

#include "certs/openssl.h"

namespace muster {
namespace {

Error not_pem(std::string_view label, std::string_view problem) {
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{}; wanted one PEM block \"{}\" and nothing else", problem, label)};
}

// What PEM_read_bio_ex hands out: three buffers, of which the last may be a private key.
struct Block {
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* data = nullptr;
  long size = 0;

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_clear_free(data, size > 0 ? static_cast<std::size_t>(size) : 0);
  }
};

}  // namespace

Result<Bytes> pem_decode(std::string_view label, std::string_view pem) {
  if (pem.size() > kPemLimitBytes) {
    return not_pem(label,
                   fmt::format("{} bytes, over the limit of {}", pem.size(), kPemLimitBytes));
  }
  if (!pem.starts_with(fmt::format("-----BEGIN {}-----", label))) {
    return not_pem(label, "the text does not begin with the block");
  }
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (!bio) return openssl_error("read PEM");
  Block block;
  if (PEM_read_bio_ex(bio.get(), &block.name, &block.header, &block.data, &block.size,
                      PEM_FLAG_ONLY_B64) != 1) {
    return not_pem(label, "damaged PEM (" + drain_openssl_errors() + ")");
  }
  if (std::string_view(block.name) != label || *block.header != '\0') {
    return not_pem(label, "a PEM block of another kind");
  }
  const char* rest_data = nullptr;
  const long rest_size = BIO_get_mem_data(bio.get(), &rest_data);
  const std::string_view rest(rest_data, rest_size > 0 ? static_cast<std::size_t>(rest_size) : 0);
  if (rest.find_first_not_of(" \t\r\n") != std::string_view::npos) {
    return not_pem(label, "there is more text after the first block");
  }
  const ByteView der = std::as_bytes(std::span(block.data, static_cast<std::size_t>(block.size)));
  return Bytes(der.begin(), der.end());
}

std::string pem_encode(std::string_view label, ByteView der) {
  constexpr std::size_t kLineLength = 64;
  std::string body = base64_encode(der);
  const WipeAtEnd wipe(body);
  std::string pem;
  pem.reserve(body.size() + body.size() / kLineLength + 128);
  pem += fmt::format("-----BEGIN {}-----\n", label);
  for (std::size_t at = 0; at < body.size(); at += kLineLength) {
    pem.append(body, at, kLineLength);
    pem += '\n';
  }
  pem += fmt::format("-----END {}-----\n", label);
  return pem;
}

WipeAtEnd::~WipeAtEnd() {
  OPENSSL_cleanse(data_, size_);
}

}  // namespace muster
