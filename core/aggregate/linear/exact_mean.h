#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/aggregate/double_double.h"
#include "core/aggregate/update_values.h"
#include "core/base/error.h"
#include "core/base/workers.h"

namespace muster {

namespace kernels {
struct Table;
}

struct WeightedValues {
  const UpdateValues* values = nullptr;
  double weight = 0;  // finite; 0 leaves the values unread
};

// Sums of weighted values as a double-double an element: the mergeable half of a mean, 16 bytes a
// parameter.
struct PartialSums {
  std::vector<double> high;
  std::vector<double> low;
};

// One weighted mean over a model, element by element:
//
//   ( sum over terms of weight * (values - centre)  +  partial  +  base_weight * base ) / divisor
//
// rounded once to float32 (ties to even) from its exact value. So the order of the terms, the
// number of threads and the instruction set make no difference to any bit (docs/decisions/0006).
struct MeanOf {
  std::vector<WeightedValues> terms;
  DoubleDouble divisor;                  // over 0
  const StateDict* centre = nullptr;     // taken from every value of the terms; null: nothing
  const PartialSums* partial = nullptr;  // terms that were summed before; null: none. Then the sum
                                         // is a double-double's, not exact.
  DoubleDouble base_weight = {0, 0};
  const StateDict* base = nullptr;
};

// A value among the terms that is NaN or infinite.
struct NonFinite {
  std::size_t term = 0;
};

// How: first in plain doubles with the largest and smallest magnitude beside the sum. That is the
// exact sum where the magnitudes span few enough bits; else its error has a bound, and an element
// is done when both ends of the bound round to the same float32. The few that are left are done
// with integers of as many bits as it takes. With `partial` in double-double throughout.
// A sum of nothing but -0.0 is -0.0; any other that is 0 is 0.0.
// Gives which term was not finite, if any: of the first block with such a value the first term;
// `out` is unspecified then. An element of `out` is infinite when the mean does not fit a float32,
// and not finite where centre, partial or base are not.
std::optional<NonFinite> exact_mean(const MeanOf& mean, std::span<float> out, Workers* workers);
// With the kernels of one instruction set rather than the best.
std::optional<NonFinite> exact_mean(const MeanOf& mean, std::span<float> out, Workers* workers,
                                    const kernels::Table& table);

// Adds weight * values of the terms to `sums`, in order of the terms, as double-doubles: exact as
// long as an element's terms span fewer than 106 bits. Empty sums begin as -0.0. They are
// unspecified when a term was not finite.
std::optional<NonFinite> add_to(PartialSums& sums, std::span<const WeightedValues> terms,
                                Workers* workers);
std::optional<NonFinite> add_to(PartialSums& sums, std::span<const WeightedValues> terms,
                                Workers* workers, const kernels::Table& table);
// into += from. Either may be empty: nothing was added.
void add_to(PartialSums& into, const PartialSums& from, Workers* workers);

}  // namespace muster
