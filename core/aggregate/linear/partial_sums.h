#pragma once

#include <optional>
#include <span>

#include "core/aggregate/linear/exact_mean.h"

namespace muster {

// exact_mean where sums begin with mean.partial: in double-double, the last rounding exact.
std::optional<NonFinite> mean_with_partial(const MeanOf& mean, std::span<float> out,
                                           Workers* workers, const kernels::Table& table);

}  // namespace muster
