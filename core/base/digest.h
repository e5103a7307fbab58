#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/bytes.h"

namespace muster {

// A SHA-256 value (FIPS 180-4). Ordered and comparable, so that it can be a key.
struct Digest {
  std::array<std::byte, 32> bytes{};

  auto operator<=>(const Digest&) const = default;

  // 64 lower-case hexadecimal digits.
  std::string hex() const;
  static Result<Digest> from_hex(std::string_view text);
};

// SHA-256 of bytes that arrive in pieces. `update` any number of times, then `finish` once.
// One thread at a time; movable.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(ByteView bytes);
  Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Digest sha256(ByteView bytes);
Digest sha256(std::string_view text);

}  // namespace muster
