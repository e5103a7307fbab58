#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/error.h"

// Private to certs: PEM text (RFC 7468) to DER and back, stricter than OpenSSL's own reader.
namespace muster {

// No certificate, key or request of ours comes near this.
inline constexpr std::size_t kPemLimitBytes = 16 * 1024;

// The DER inside the one PEM block that `pem` consists of. Refuses text before the block, anything
// but white space after it, encryption headers, another label, and more than kPemLimitBytes.
//   label  "CERTIFICATE", "CERTIFICATE REQUEST", "PRIVATE KEY"
// Errors: kInvalidArgument; the message never repeats the content.
Result<Bytes> pem_decode(std::string_view label, std::string_view pem);

std::string pem_encode(std::string_view label, ByteView der);

// Overwrites private bytes before their memory is given back, on every way out of a scope.
class WipeAtEnd {
 public:
  explicit WipeAtEnd(std::string& text) : data_(text.data()), size_(text.size()) {}
  explicit WipeAtEnd(Bytes& bytes) : data_(bytes.data()), size_(bytes.size()) {}
  WipeAtEnd(const WipeAtEnd&) = delete;
  WipeAtEnd& operator=(const WipeAtEnd&) = delete;
  ~WipeAtEnd();

 private:
  void* data_;
  std::size_t size_;
};

}  // namespace muster
