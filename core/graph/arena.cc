#include "core/graph/arena.h"

#include <numeric>

namespace muster {

std::int64_t SharedPlan::place() {
  if (buffers_.size() > kMostSharing) {
    std::int64_t end = 0;
    for (Buffer& buffer : buffers_) {
      buffer.offset = end;
      end = std::min(end + buffer.size, ArenaPlan::kMost);
    }
    return end;
  }
  std::vector<std::size_t> by_size(buffers_.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
    return buffers_[a].size > buffers_[b].size;
  });
  std::vector<const Buffer*> placed;  // in order of their offsets
  std::int64_t total = 0;
  for (const std::size_t number : by_size) {
    Buffer& buffer = buffers_[number];
    // The first gap between buffers in use at the same time.
    std::int64_t offset = 0;
    for (const Buffer* other : placed) {
      if (other->last < buffer.first || buffer.last < other->first) continue;
      if (offset + buffer.size <= other->offset) break;
      offset = std::max(offset, other->offset + other->size);
    }
    buffer.offset = std::min(offset, ArenaPlan::kMost);
    total = std::min(std::max(total, buffer.offset + buffer.size), ArenaPlan::kMost);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &buffer,
                         [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; }),
        &buffer);
  }
  return total;
}

}  // namespace muster
