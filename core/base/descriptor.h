#pragma once

#include <cerrno>
#include <utility>

#include "core/base/bytes.h"

namespace muster {

// A file descriptor, closed when it goes. Movable.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int number() const { return number_; }
  bool valid() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

// Calls again for as long as a signal interrupts.
template <typename Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Gives 0, or the errno of the write that failed. Writes at most 64 KiB at once: Linux keeps what
// one write brought in pieces of up to 2 MiB, and whoever maps the file later has all of a piece in
// memory when it reads a byte of it (MappedFile::release).
int write_all(int descriptor, ByteView bytes);

}  // namespace muster
