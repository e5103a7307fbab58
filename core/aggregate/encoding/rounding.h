#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

// The arithmetic of encoding.
namespace muster {

inline constexpr std::uint16_t kHalfInfinity = 0x7c00;
inline constexpr std::uint16_t kBfloatInfinity = 0x7f80;

// The nearest IEEE 754 half precision number, ties to even; infinity from 65520. x is finite.
inline std::uint16_t to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  constexpr std::uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  if (magnitude >= kSmallestNormal) {
    const std::uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    // The exponent's bias is 112 smaller.
    const std::uint32_t half = (rounded - (112U << 23)) >> 13;
    return static_cast<std::uint16_t>(sign | std::min<std::uint32_t>(half, kHalfInfinity));
  }
  // A multiple of 2^-24. Adding 2^23 leaves a whole number, rounded to even.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p24F + 0x1p23F;
  return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(scaled) & 0x7fffff));
}

// The nearest bfloat16, ties to even; infinity where that is nearest. x is finite.
inline std::uint16_t to_bfloat(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The smallest scale with 127 * scale >= largest; where float32 has none of which 127 times is
// finite, the one below. largest >= 0, finite.
inline float int8_scale(float largest) {
  auto scale = static_cast<float>(static_cast<double>(largest) / 127);
  if (127.0 * static_cast<double>(scale) < static_cast<double>(largest)) {
    scale = std::nextafter(scale, std::numeric_limits<float>::max());
  }
  return std::isfinite(127.0F * scale) ? scale : std::nextafter(scale, 0.0F);
}

// x / scale rounded down or up, up with the probability of its fraction: up when uniform (from 0,
// below 1) is below that. |x| <= 127 scale up to rounding; 0 for scale 0.
inline std::int8_t to_int8(float x, float scale, double uniform) {
  if (scale == 0) return 0;
  const double steps = static_cast<double>(x) / static_cast<double>(scale);
  const double down = std::floor(steps);
  const double rounded = uniform < steps - down ? down + 1 : down;
  return static_cast<std::int8_t>(std::clamp(rounded, -127.0, 127.0));
}

// How many of the `count` largest magnitudes are left to find after those above `threshold`, and
// the bits of the magnitude that is last among them.
struct LargestBound {
  std::uint32_t threshold = 0;
  std::size_t at_threshold = 0;
};

// Radix selection, high bits first: three passes, no memory to speak of. 1 <= count <= x.size().
inline LargestBound bound_of_largest(std::span<const float> x, std::size_t count) {
  struct Digit {
    int shift, bits;
  };
  constexpr std::array<Digit, 3> kDigits{{{20, 11}, {10, 10}, {0, 10}}};
  LargestBound bound{0, count};
  std::uint32_t known = 0;  // mask of the bits that are found
  for (const Digit& digit : kDigits) {
    std::array<std::size_t, 2048> counts{};
    const std::uint32_t mask = (1U << digit.bits) - 1;
    for (const float value : x) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) & 0x7fffffff;
      if ((bits & known) == bound.threshold) ++counts[bits >> digit.shift & mask];
    }
    std::uint32_t found = mask;
    while (counts[found] < bound.at_threshold) bound.at_threshold -= counts[found--];
    bound.threshold |= found << digit.shift;
    known |= mask << digit.shift;
  }
  return bound;
}

// Calls body(index) for the `count` elements of largest magnitude in rising order; of equal ones
// those with the lower index. The body may change the element it is called for.
template <typename Body>
void for_each_largest(std::span<const float> x, std::size_t count, const Body& body) {
  if (count == 0) return;
  LargestBound bound = bound_of_largest(x, count);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffff;
    if (bits < bound.threshold) continue;
    if (bits == bound.threshold) {
      if (bound.at_threshold == 0) continue;
      --bound.at_threshold;
    }
    body(i);
  }
}

}  // namespace muster
