#include "certs/openssl.h"

#include <openssl/err.h>

#include <array>
#include <vector>

namespace muster {

std::string drain_openssl_errors() {
  std::string text;
  std::vector<std::string> seen;
  const char* data = nullptr;
  int flags = 0;
  while (const unsigned long code = ERR_get_error_all(nullptr, nullptr, nullptr, &data, &flags)) {
    std::array<char, 256> buffer{};
    const char* reason = ERR_reason_error_string(code);
    if (reason == nullptr) ERR_error_string_n(code, buffer.data(), buffer.size());
    std::string part = reason != nullptr ? reason : buffer.data();
    if ((flags & ERR_TXT_STRING) != 0 && data != nullptr && *data != '\0') {
      part += " (" + std::string(data) + ")";
    }
    bool repeated = false;
    for (const auto& other : seen) repeated = repeated || other == part;
    if (repeated) continue;
    text += (text.empty() ? "" : ": ") + part;
    seen.push_back(std::move(part));
  }
  return text;
}

Error openssl_error(std::string_view what, ErrorCode code, std::string_view reason) {
  std::string cause = drain_openssl_errors();
  if (cause.empty()) cause = "OpenSSL gave no reason";
  return Error{code, std::string(what) + ": " + cause, std::string(reason)};
}

bool is_p256(EVP_PKEY* key) {
  if (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC) return false;
  std::array<char, 64> group{};
  std::size_t length = 0;
  const bool named = EVP_PKEY_get_group_name(key, group.data(), group.size(), &length) == 1;
  if (!named) ERR_clear_error();
  return named && std::string_view(group.data(), length) == SN_X9_62_prime256v1;
}

}  // namespace muster
