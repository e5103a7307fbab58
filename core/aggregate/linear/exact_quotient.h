#pragma once

#include "core/aggregate/double_double.h"
#include "core/aggregate/long_accumulator.h"

namespace muster {

// Exact sums divided and rounded once to float32 (ties to even): what is left of a mean where
// bounds on errors decide nothing. The divisor is over 0 and finite. Infinite when the quotient
// does not fit.

// A sum of 0 gives 0.0.
float divide_to_float(LongAccumulator sum, DoubleDouble divisor);

// A sum of -0.0 gives -0.0.
float divide_to_float(DoubleDouble sum, DoubleDouble divisor);

}  // namespace muster
