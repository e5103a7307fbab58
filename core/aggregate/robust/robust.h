#pragma once

#include <memory>

#include "core/aggregate/aggregator.h"

namespace muster {

// The aggregators that need all updates at once: Median, TrimmedMean, Krum, MultiKrum, Bulyan,
// GeometricMedian. They keep the contributions, read them side by side in blocks of elements, and
// merge by passing them on. Null for other settings.
std::unique_ptr<Aggregator> make_robust_aggregator(const AggregationSettings& settings,
                                                   const AggregationBase& base);

// One of these that goes on where it was saved: the contributions are views into `saved`, or copies
// where that does not begin as floats have to.
// Errors: as restore_aggregator; also for other settings, "other_rule".
Result<std::unique_ptr<Aggregator>> restore_robust_aggregator(const AggregationSettings& settings,
                                                              const AggregationBase& base,
                                                              ByteView saved);

}  // namespace muster
