#pragma once

#include <cstdint>

// log, exp and cos differ in their last bits between C libraries, and even between processors with
// one library. These use only operations that IEEE 754 fixes (+ - * / sqrt, scaling by powers of
// two), so that whatever is computed with them has the same bits everywhere. Their relative error
// is a few units in the last place.
namespace muster {

// x > 0.
double exact_log(double x);

// 0 below -745.2, exp(709.7) above that; NaN for NaN.
double exact_exp(double x);

// cos(2 pi t), t in [0, 1).
double exact_cos_of_turns(double t);

// base^exponent by repeated squaring; exponent >= 0. Error: about 2 log2(exponent) roundings.
double integer_power(double base, std::int64_t exponent);

}  // namespace muster
