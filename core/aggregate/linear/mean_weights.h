#pragma once

#include <cstdint>
#include <vector>

#include "core/aggregate/double_double.h"

namespace muster {

// What the plain doubles of a mean are computed with: the same weights and divisor in the smallest
// whole numbers that have their proportions, where there are such, else scaled to be near 1. And
// what is known about the sums then.
struct MeanWeights {
  std::vector<double> weights;
  double divisor = 1;         // rounded to a double
  bool usable = false;        // false: the weights are too far apart for doubles
  bool power_of_two = false;  // the divisor is one, exactly
  bool decides_ties = false;  // the divisor is exact, and its 28 leading bits are all there are
  // Where the exponents of an element's largest and smallest magnitude are no further apart than
  // this, its sum has no rounding error. Below 0: never known.
  std::int32_t exact_span = -1;
  double error = 0;  // most that a quotient is off for each unit of the largest |value - centre|
};

//   weights      not 0
//   num_centred  how many of them, from the first, are of differences of two values
//   divisor      over 0
MeanWeights mean_weights(const std::vector<double>& weights, std::size_t num_centred,
                         DoubleDouble divisor);

}  // namespace muster
