#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/aggregate/contribution.h"
#include "core/base/workers.h"

namespace muster {

// Euclidean norms of updates' changes, each as the square root of a sum in double, formed from
// differences of values, so nothing cancels. Overflow free for all float32 values. Equal bits with
// any number of workers.
//   content kState  of values - global
//   content kDelta  of the values
// One pass over each update. NaN where a value is not finite.
std::vector<double> change_norms(std::span<const Contribution> contributions, UpdateContent content,
                                 const StateDict& global, Workers* workers);

// Squared Euclidean distances between all pairs, [n, n] row-major, symmetric, zeros on the
// diagonal: sums of squared differences (no Gram matrix, which would cancel). Differences, squares
// and the sums of runs of 128 of them are float32, the sums of runs double: right to 2^-20 of
// itself. Where a piece of 512 squares is so small or large that float32 does not hold it, it is
// formed in double from the start. Equal updates have distance exactly 0 and equal pairs equal
// bits. One pass over the updates, n (n - 1) / 2 differences an element.
std::vector<double> squared_distances(std::span<const Contribution> contributions,
                                      Workers* workers);

}  // namespace muster
