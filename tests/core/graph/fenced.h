#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

// Memory for tests of what an op writes beside its place.
namespace muster {

inline constexpr float kGuard = 4242;

// Floats between two fences; NaN to begin with, as nothing may be read before it is written.
class Fenced {
 public:
  explicit Fenced(std::int64_t size)
      : memory_(static_cast<std::size_t>(size) + 2 * kFence,
                std::numeric_limits<float>::quiet_NaN()) {
    std::fill_n(memory_.begin(), kFence, kGuard);
    std::fill_n(memory_.rbegin(), kFence, kGuard);
  }
  std::span<float> span() {
    return std::span(memory_).subspan(kFence, memory_.size() - 2 * kFence);
  }
  bool intact() const {
    const auto whole = [](float value) { return value == kGuard; };
    return std::all_of(memory_.begin(), memory_.begin() + kFence, whole) &&
           std::all_of(memory_.rbegin(), memory_.rbegin() + kFence, whole);
  }

 private:
  static constexpr std::ptrdiff_t kFence = 256;
  std::vector<float> memory_;
};

}  // namespace muster
