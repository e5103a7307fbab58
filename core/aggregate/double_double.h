#pragma once

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

}  // namespace muster
