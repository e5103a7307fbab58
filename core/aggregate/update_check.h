#pragma once

#include <cstdint>

#include "core/aggregate/aggregator.h"
#include "core/base/error.h"

namespace muster {

struct UpdateLimits {
  std::int64_t max_examples = 10'000'000;  // cap on one device's weight
};

// Layout equal by name and shape, and all values finite: what every aggregator asks of a
// contribution, whatever its weight. Layout first, values last, because only they cost time.
// Errors: kInvalidArgument naming contributor and tensor; reason "missing_tensor", "extra_tensor",
// "shape_mismatch" or "non_finite" (with tensor and index).
Status check_values(const StateLayout& wanted, const Contribution& update);

// What every update must pass before it is stored: layout equal by name and shape, all values
// finite, examples from 1 to the cap. Errors: kInvalidArgument, reason "missing_tensor",
// "extra_tensor", "shape_mismatch", "non_finite" (with tensor and index), "zero_examples" (examples
// == 0) or "bad_examples" (negative, over the cap).
Status check_update(const StateLayout& wanted, const Contribution& update,
                    const UpdateLimits& limits);

}  // namespace muster
