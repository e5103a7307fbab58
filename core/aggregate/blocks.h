#pragma once

#include <algorithm>
#include <cstdint>

// How models are walked when all updates are read side by side.
namespace muster {

// Elements of a model that are worked on at once. Results that are summed over a model are summed
// within a block first, then over blocks in order, so this fixes bits.
inline constexpr std::int64_t kBlock = 2048;

// Blocks that one worker takes at once and after which mapped pages are given back: as many as keep
// what all `updates` have in memory near 16 MiB a worker.
inline std::int64_t blocks_at_once(std::int64_t updates) {
  constexpr std::int64_t kBytes = std::int64_t{16} << 20;
  return std::clamp<std::int64_t>(kBytes / (updates * kBlock * 4), 1, 256);
}

}  // namespace muster
