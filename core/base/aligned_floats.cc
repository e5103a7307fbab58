#include "core/base/aligned_floats.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace muster {
namespace {

constexpr std::size_t kLine = 64;
// From here on an array has a mapping of its own,
constexpr std::size_t kMapped = 128 * 1024;
// and huge pages, where the system has them: the first touch of small pages otherwise costs more
// than filling them.
constexpr std::size_t kHugePages = 8 * 1024 * 1024;

// Lies in the line before the array.
struct Header {
  void* block = nullptr;   // as the system gave it
  std::size_t mapped = 0;  // bytes of a mapping; 0: from the heap
};
static_assert(sizeof(Header) <= kLine);

}  // namespace

AlignedFloats make_aligned_floats(std::int64_t count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float) + 2 * kLine;
  Header header;
  if (bytes >= kMapped) {
    header.block =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (header.block == MAP_FAILED) return nullptr;
    header.mapped = bytes;
    // Advice only: a refusal changes nothing.
    if (bytes >= kHugePages) ::madvise(header.block, bytes, MADV_HUGEPAGE);
  } else {
    header.block = std::malloc(bytes);
    if (header.block == nullptr) return nullptr;
  }
  auto* const start = static_cast<std::byte*>(header.block);
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  std::byte* const floats = start + ((address + 2 * kLine - 1) / kLine * kLine - address);
  new (floats - kLine) Header(header);
  return AlignedFloats(reinterpret_cast<float*>(floats));
}

void FreeFloats::operator()(float* floats) const {
  if (floats == nullptr) return;
  const Header header =
      *std::launder(reinterpret_cast<Header*>(reinterpret_cast<std::byte*>(floats) - kLine));
  if (header.mapped > 0) {
    ::munmap(header.block, header.mapped);
  } else {
    std::free(header.block);
  }
}

}  // namespace muster
