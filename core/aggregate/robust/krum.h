#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/workers.h"

// Choosing updates by their distances (Blanchard et al. 2017; El Mhamdi et al. 2018). Of equal
// scores the one with the lower index comes first.
//   distances  squared, [n, n], symmetric, zeros on the diagonal, finite
namespace muster {

// score(i) = the sum of the squared distances from i to its n - f - 2 nearest others, summed from
// the nearest on. n >= f + 3.
std::vector<double> krum_scores(std::span<const double> distances, std::int64_t n, std::int64_t f,
                                Workers& workers);

// The `wanted` with the lowest scores, in order of score. 1 <= wanted <= scores.size().
std::vector<std::int64_t> lowest_scores(std::span<const double> scores, std::int64_t wanted);

// The first phase of Bulyan: n - 2f times the winner of Krum among those still there, with
// max(1, left - f - 2) neighbours; in order of selection. Time n^3, with additions only.
std::vector<std::int64_t> bulyan_selection(std::span<const double> distances, std::int64_t n,
                                           std::int64_t f, Workers& workers);

}  // namespace muster
