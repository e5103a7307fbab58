#include "core/base/descriptor.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace muster {

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

int write_all(int descriptor, ByteView bytes) {
  constexpr std::size_t kMostAtOnce = std::size_t{64} << 10;
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kMostAtOnce);
    const ssize_t written = uninterrupted([&] { return ::write(descriptor, bytes.data(), size); });
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace muster
