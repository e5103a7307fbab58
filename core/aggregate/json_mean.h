#pragma once

#include <memory>

#include "core/aggregate/keeping_aggregator.h"

namespace muster {

// The aggregator of JsonMean: of JSON states (core/tensor/json_state.h), number by number, the
// exact mean weighted by examples, rounded once to a double. A number on which all agree stays as
// it is, so one contributor is the identity. A contributor of no examples has to fit but counts
// nothing. Its values are always checked: `validate` also refuses with reason "bad_number" (words
// of no double) and "non_finite" (a double that is none), naming the number's index.
// Errors: kInvalidArgument, reason "bad_aggregation": a base that is no JSON state, or deltas.
Result<std::unique_ptr<KeepingAggregator>> make_json_mean_aggregator(
    const AggregationSettings& settings, const AggregationBase& base);

}  // namespace muster
