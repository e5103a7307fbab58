#pragma once

#include <cstdint>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"

namespace muster {

// What "standardize" knows of its input: how many examples were seen, and the mean and the variance
// (sum of squared differences by count) of each feature over them. As JSON
//   {"type": "standardize", "count": 60000, "mean": [0.5, ...], "variance": [0.25, ...]}
// and in a node {"op": "standardize", "mean": [...], "variance": [...], "count": 60000, "eps": 0},
// where "count" may be left out. `mean` and `variance` have one entry for each feature; or one for
// each entry of the first dimension of an example (its channels), or one for all.
struct StandardizeState {
  std::int64_t count = 0;
  std::vector<double> mean;
  std::vector<double> variance;
};

// The most entries of a state.
inline constexpr std::size_t kMostStandardized = 1 << 24;

// Reads "mean" and "variance" (both wanted) into a state: equal lengths of at least 1, finite
// numbers that belong to float32 data, no negative variance. Errors are left in the object.
void read_standardize_fields(JsonObject& object, StandardizeState& state);

}  // namespace muster
