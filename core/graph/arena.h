#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster {

// Hands out places in one block of floats before the block is made. Places begin on cache lines, so
// that how a loop is cut into vectors is the same in every run. Sizes come from graphs that others
// wrote: a sum that leaves the range stays at kMost.
class ArenaPlan {
 public:
  static constexpr std::int64_t kMost = std::int64_t{1} << 60;

  // A place for per_example * batch + fixed floats (none negative), as an offset in floats; of no
  // use once total() is kMost.
  std::int64_t take(std::int64_t per_example, std::int64_t batch, std::int64_t fixed) {
    const std::int64_t place = total_;
    std::int64_t wanted = 0;
    if (__builtin_mul_overflow(per_example, batch, &wanted) ||
        __builtin_add_overflow(wanted, fixed, &wanted) || wanted > kMost - kAlign) {
      wanted = kMost - kAlign;
    }
    total_ = std::min(kMost, total_ + (wanted + kAlign - 1) / kAlign * kAlign);
    return place;
  }

  std::int64_t total() const { return total_; }

 private:
  static constexpr std::int64_t kAlign = 64 / sizeof(float);
  std::int64_t total_ = 0;
};

// Shares places in a block among buffers that are not used at the same time. Of buffers whose steps
// overlap none share a place; larger ones are placed first, each as low as it fits (Pisarchyk & Lee
// 2020, "greedy by size").
class SharedPlan {
 public:
  // A buffer of `floats` (a total of an ArenaPlan), used from step `first` to step `last`; returns
  // its number.
  std::size_t add(std::int64_t floats, std::int64_t first, std::int64_t last) {
    buffers_.push_back({.size = floats, .first = first, .last = last});
    return buffers_.size() - 1;
  }

  // Places all buffers; returns the floats of the whole block.
  std::int64_t place();
  // Of a buffer in the block, after `place`.
  std::int64_t offset(std::size_t buffer) const { return buffers_[buffer].offset; }

 private:
  // Placing takes time that grows with the square of the buffers; so many take milliseconds. More
  // of them do not share.
  static constexpr std::size_t kMostSharing = 4096;

  struct Buffer {
    std::int64_t size = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::int64_t offset = 0;
  };
  std::vector<Buffer> buffers_;
};

}  // namespace muster
