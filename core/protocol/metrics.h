#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/train/local_trainer.h"

namespace muster::protocol {

// Metrics as they came from a device: those of use, and the names of those that were dropped, for
// the log.
struct ReceivedMetrics {
  Metrics kept;
  std::vector<std::string> dropped;
};

// Reads {"loss": 0.5, "accuracy": 0.8}. A metric that says nothing is dropped, not an error,
// because the update beside it may be good: null (how JSON writes NaN), a number that is not
// finite, an "accuracy" outside 0 to 1. Errors: kInvalidArgument, reason "bad_field": no object,
// over 64 entries, a name that is none (core/base/names.h), a value that is neither number nor
// null.
Result<ReceivedMetrics> metrics_from_json(const Json& json, const std::string& where);

// Only finite values are written.
Json to_json(const Metrics& metrics);

}  // namespace muster::protocol
