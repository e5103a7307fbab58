#pragma once

#include <stop_token>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/train/data/dataset.h"

namespace muster {

// The statistics of examples as the state of a model {"statistics": ...}
// (core/graph/statistics.h): means and mean squares of the features, and the share of each label.
// Sums are in double-double, so each figure is within a unit in the last place of the exact one,
// and means of several devices weighted by their examples are those of all examples together.
//   state  the structure, and with it the sizes
// Errors: kInvalidArgument, reason "bad_model" (the state is none of statistics), "bad_data" (no
// examples, another number of features, targets that are no labels, or more than one an example, a
// label outside the classes); kCancelled.
Result<Json> data_statistics(const Json& state, const Dataset& data, std::stop_token stop = {});

}  // namespace muster
