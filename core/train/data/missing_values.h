#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/train/data/dataset.h"

namespace muster {

// One feature whose missing values, which are NaN, become the mean or the median of the others.
struct MissingFill {
  enum class With { kMean, kMedian };
  std::int64_t feature = 0;  // place in an example
  std::string column;        // its name, for errors
  With with = With::kMean;
};

// Replaces the NaN of these features in both parts by a figure of the training part alone, so that
// the examples kept back stay unseen. The mean is a sum of doubles in the order of the examples,
// the median of an even number the mean of the middle two; both are rounded to float once. With no
// fills the data comes back as it was.
// Errors: kInvalidArgument, reason "bad_data", for a feature with no value at all in the training
// part. `name` is that of the file.
Result<LocalData> fill_missing(LocalData data, std::span<const MissingFill> fills,
                               const std::string& name);

}  // namespace muster
