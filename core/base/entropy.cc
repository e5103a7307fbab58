#include "core/base/entropy.h"

#include <sys/random.h>

#include <array>

#include "core/base/bytes.h"

namespace muster {

Result<std::string> random_hex(std::size_t bytes) {
  std::array<std::byte, 64> buffer{};  // getrandom gives up to 256 bytes whole
  if (bytes > buffer.size() || getrandom(buffer.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    return Error{ErrorCode::kInternal, "the system's random source gave no bytes", "no_entropy"};
  }
  return hex_encode(ByteView(buffer).first(bytes));
}

}  // namespace muster
