#pragma once

#include <cstdint>
#include <string>

#include "core/aggregate/contribution.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/workers.h"

namespace muster {

// What an update must keep to, before it is stored and before any sum: the "checks" object of a
// job:
//   {"max_examples": 10000000,  the most that one update may count for, 1 to 2^53
//    "max_change_norm": 0}      L2 norm of the change from the global state; 0: no limit
struct UpdateLimits {
  std::int64_t max_examples = 10'000'000;
  double max_change_norm = 0;
};

Result<UpdateLimits> update_limits_from_json(const Json& json, const std::string& where);
Json to_json(const UpdateLimits& limits);

// Layout equal by name and shape, and as many values. Errors as check_update's.
Status check_layout(const StateLayout& wanted, const Contribution& update);

// All values finite, of a contribution whose layout is right. Reads them once, in blocks.
// Errors: kInvalidArgument, reason "non_finite", naming contributor, tensor, index in it and value.
Status check_values(const StateLayout& wanted, const Contribution& update);

// What every update must pass before it is stored: layout equal by name and shape, all values
// finite, examples from 1 to the cap, the change within its bound. One pass over the values.
// Errors: kInvalidArgument naming contributor and tensor; reason "missing_tensor", "extra_tensor",
// "shape_mismatch", "non_finite" (with tensor and index), "zero_examples" (examples == 0),
// "bad_examples" (negative, over the cap) or "norm_too_large" (with norm and limit).
Status check_update(const StateDict& global, UpdateContent content, const Contribution& update,
                    const UpdateLimits& limits);

}  // namespace muster
