#pragma once

#include <cmath>

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

  DoubleDouble minus(const DoubleDouble& other) const {
    DoubleDouble result = *this;
    add(result.high, result.low, -other.high);
    add(result.high, result.low, -other.low);
    return result;
  }

  // Error at most 2^-104 of the quotient; a divisor that is not 0.
  DoubleDouble over(double divisor) const {
    const double quotient = high / divisor;
    const double rest = std::fma(-quotient, divisor, high) + low;
    DoubleDouble result{quotient, 0};
    add(result.high, result.low, rest / divisor);
    return result;
  }
};

}  // namespace muster
