#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"

// What a federation may learn of data that stay where they are, before it trains on them: the
// features' means and mean squares (so their deviations, to standardise by) and the share of each
// class. A model {"statistics": {"features": 4, "classes": 3}} is the JSON state
//   {"mean": [0.0 x 4], "mean_square": [0.0 x 4], "label_share": [0.0 x 3]}
// and muster-edge computes it of its training examples (core/train/data_statistics.h).
namespace muster {

struct StatisticsSize {
  std::int64_t features = 1;  // 1 to 50,000: elements of an example
  std::int64_t classes = 0;   // 0 to 50,000; 0: the targets are not looked at
};

// The state that a model {"statistics": ...} begins from.
// Errors: kInvalidArgument, reason "bad_field".
Result<Json> statistics_state(const Json& model, const std::string& where);

// The sizes of such a state; none when it is another.
std::optional<StatisticsSize> statistics_size(const Json& state);

}  // namespace muster
