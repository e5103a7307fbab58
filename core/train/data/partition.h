#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"

// Ways to deal the examples of one data set to devices. In each, every example is in exactly one
// part, and equal arguments give equal parts on every machine; so each device can cut out its own
// part alone. A part lists positions in rising order.
namespace muster {

using Parts = std::vector<std::vector<std::int64_t>>;

// At random; sizes differ by one at most.
// Errors: kInvalidArgument for fewer examples than parts.
Result<Parts> partition_iid(std::int64_t examples, std::int64_t parts, std::uint64_t seed);

// Few classes a part (McMahan et al. 2017, section 3): the examples, sorted by label, are cut into
// parts * per_part pieces of equal size (by one at most), and each part is dealt per_part of them
// at random. Errors: kInvalidArgument for fewer examples than pieces.
Result<Parts> partition_shards(std::span<const std::int32_t> labels, std::int64_t parts,
                               std::int64_t per_part, std::uint64_t seed);

// Skewed classes (Hsu, Qi and Brown 2019): for each class, the proportions over the parts are drawn
// from a symmetric Dirichlet distribution of concentration `alpha`: small is skewed, large is even.
// Parts may be empty. Errors: kInvalidArgument for an alpha not in [1e-4, 1e6].
Result<Parts> partition_dirichlet(std::span<const std::int32_t> labels, std::int64_t parts,
                                  double alpha, std::uint64_t seed);

}  // namespace muster
