#pragma once

#include <bit>
#include <cstdint>

namespace muster::losses {

// e^x in single precision for x <= 0, within 2 units in the last place; 0 below -87, where results
// turn subnormal; NaN for NaN.
//
// Plain arithmetic without a branch, so that loops over it become vector instructions, and with the
// same bits wherever an element lies in such a loop. Method: x = n ln 2 + r with |r| <= ln 2 / 2,
// ln 2 in two parts (Cody and Waite 1980), and the polynomial for e^r of the Cephes library's expf
// (Moshier 1992).
inline float exp_of_non_positive(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // 9 bits, so that n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kLowest = -87.0F;
  // Adding 1.5 * 2^23 rounds to a whole number, which then stands in the low bits.
  constexpr float kShift = 12582912.0F;

  const float shifted = x * kLog2E + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const auto power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U);
  // As a mask: a choice between numbers would be a branch again.
  const std::uint32_t keep = x < kLowest ? 0U : ~0U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p * power) & keep);
}

}  // namespace muster::losses
