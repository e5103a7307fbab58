#pragma once

#include <memory>

#include "core/aggregate/keeping_aggregator.h"

namespace muster {

// The aggregators of Median, TrimmedMean, Krum, MultiKrum, Bulyan and GeometricMedian, which read
// all updates side by side in blocks of elements. Null for other settings.
std::unique_ptr<KeepingAggregator> make_robust_aggregator(const AggregationSettings& settings,
                                                          const AggregationBase& base);

}  // namespace muster
