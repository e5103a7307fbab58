#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/kernels/kernels.h"

namespace muster {

// A network of comparators that merges sorted groups of kernels::kSortGroup rows, after which rows
// [first, last) of `rows` rows hold what sorting all of them would put there: Batcher's odd-even
// merging (Batcher 1968; Knuth, TAOCP volume 3, 5.3.4) for any number of rows, without the
// comparators that no row of [first, last) depends on. About rows * log2(rows)^2 / 4 of them, less
// what the groups save.
//   rows  1 to 2^24; 0 <= first < last <= rows
std::vector<kernels::Comparator> sorting_network(std::int64_t rows, std::int64_t first,
                                                 std::int64_t last);

}  // namespace muster
