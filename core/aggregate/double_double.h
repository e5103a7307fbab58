#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace muster {

// A number as the unevaluated sum of two doubles, |low| <= ulp(high) / 2: about 106 bits (Dekker
// 1971; Knuth, TAOCP volume 2, 4.2.2, theorem B). The order of operations below is the algorithm;
// the build forbids contraction and fast-math.
struct DoubleDouble {
  double high = -0.0;
  double low = -0.0;

  // Adds an exact double. Error at most 2^-105 of the sum.
  // The rounding error is formed negated and subtracted, so that with -0.0 as the neutral start a
  // sum of nothing but -0.0 stays -0.0.
  static void add(double& high, double& low, double value) {
    const double sum = high + value;
    const double taken = sum - high;
    const double minus_error = ((sum - taken) - high) + (taken - value);
    const double rest = low - minus_error;
    const double next = sum + rest;
    low = rest - (next - sum);
    high = next;
  }
};

// A positive integer as an exact sum of two doubles.
struct SplitInteger {
  double high = 0;
  double low = 0;

  explicit SplitInteger(std::int64_t value) {
    constexpr std::int64_t kExact = std::int64_t{1} << 53;
    const std::int64_t small = value <= kExact ? 0 : value & 0x7ff;
    high = static_cast<double>(value - small);
    low = static_cast<double>(small);
  }
};

// sum / divisor, rounded once to float32 (ties to even), for a quotient known to about 84 bits.
// The quotient is first rounded to odd in double: with 53 >= 24 + 2 bits the second rounding is
// then the only one that counts (Boldo and Melquiond 2008).
inline float divide_to_float(DoubleDouble sum, SplitInteger divisor) {
  const double first = sum.high / divisor.high;
  const double product = first * divisor.high;
  const double product_error = std::fma(first, divisor.high, -product);
  const double rest = ((sum.high - product) - product_error) + (sum.low - first * divisor.low);
  const double second = rest / divisor.high;
  if (second == 0) return static_cast<float>(first);
  const double quotient = first + second;
  const double left = second - (quotient - first);
  if (left == 0) return static_cast<float>(quotient);
  const auto bits = std::bit_cast<std::uint64_t>(quotient);
  if ((bits & 1) != 0) return static_cast<float>(quotient);
  const bool away_from_zero = (left > 0) == (quotient > 0);
  return static_cast<float>(std::bit_cast<double>(away_from_zero ? bits + 1 : bits - 1));
}

}  // namespace muster
