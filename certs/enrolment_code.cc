#include "certs/enrolment_code.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <array>

#include "certs/openssl.h"

namespace muster {
namespace {

constexpr std::string_view kPrefix = "muster1-";
constexpr std::string_view kHashLabel = "muster-enrolment-v1";
constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::size_t kSecretBytes = 16;
constexpr std::size_t kSecretLength = 26;  // 130 bits: the last two are zero
constexpr std::size_t kDigestLength = 64;
constexpr std::size_t kTextLength = kPrefix.size() + kSecretLength + 1 + kDigestLength;

std::string base32(const std::array<unsigned char, kSecretBytes>& bytes) {
  std::string text;
  unsigned buffer = 0;
  int bits = 0;
  for (const unsigned char byte : bytes) {
    buffer = (buffer << 8) | byte;
    for (bits += 8; bits >= 5; bits -= 5) text += kAlphabet[(buffer >> (bits - 5)) & 31];
    buffer &= (1U << bits) - 1;
  }
  text += kAlphabet[(buffer << (5 - bits)) & 31];
  return text;
}

bool is_secret(std::string_view text) {
  if (text.size() != kSecretLength) return false;
  if (text.find_first_not_of(kAlphabet) != std::string_view::npos) return false;
  return kAlphabet.find(text.back()) % 4 == 0;  // one secret has one spelling
}

Error bad_code(std::string_view problem) {
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("enrolment code: {}; wanted muster1-<26 characters a-z, 2-7>-<64 hex digits>, "
                  "all lower case, as the operator's command printed it",
                  problem),
      "bad_code"};
}

}  // namespace

Result<EnrolmentCode> EnrolmentCode::generate(const Digest& authority) {
  std::array<unsigned char, kSecretBytes> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return openssl_error("draw an enrolment secret");
  }
  EnrolmentCode code{base32(bytes), authority};
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return code;
}

std::string EnrolmentCode::text() const {
  return fmt::format("{}{}-{}", kPrefix, secret, authority.hex());
}

Result<EnrolmentCode> EnrolmentCode::parse(std::string_view text) {
  if (!text.starts_with(kPrefix)) return bad_code("it does not begin with muster1-");
  if (text.size() != kTextLength) {
    return bad_code(fmt::format("it has {} characters instead of {}", text.size(), kTextLength));
  }
  const std::string_view secret = text.substr(kPrefix.size(), kSecretLength);
  const std::string_view rest = text.substr(kPrefix.size() + kSecretLength);
  if (!is_secret(secret)) return bad_code("its first part is damaged");
  if (rest.front() != '-') return bad_code("its two parts are not separated by a hyphen");
  const auto digest = Digest::from_hex(rest.substr(1));
  if (!digest) return bad_code("its second part is damaged");
  return EnrolmentCode{std::string(secret), *digest};
}

Digest EnrolmentCode::hash_secret(std::string_view secret) {
  return sha256(std::string(kHashLabel) + std::string(secret));
}

}  // namespace muster
