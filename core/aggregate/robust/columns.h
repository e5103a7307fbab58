#pragma once

#include <cstdint>
#include <span>

#include "core/aggregate/robust/rows.h"
#include "core/base/workers.h"
#include "core/tensor/state.h"

namespace muster {

// A rule for one column: the mean of some of its values in sorted order.
struct ColumnRule {
  std::int64_t first = 0;  // of sorted values [first, last); or
  std::int64_t last = 0;
  std::int64_t near = 0;  // when over 0, of so many that are closest to the median

  // The middle value, or the mean of both (Yin et al. 2018, definition 1).
  static ColumnRule median(std::int64_t rows) { return {(rows - 1) / 2, rows / 2 + 1, 0}; }
  // Without the `trimmed` smallest and largest (Yin et al. 2018, definition 2).
  static ColumnRule trimmed_mean(std::int64_t rows, std::int64_t trimmed) {
    return {trimmed, rows - trimmed, 0};
  }
  static ColumnRule near_median(std::int64_t wanted) { return {0, 0, wanted}; }
};

// Applies a rule to every column (element) of the rows: sums in double in sorted order, so the
// order of the rows makes no difference; the result, to which `added` is added first when not null,
// is rounded once. Any number of rows from 1; memory is bounded by some 16 MiB a worker and four
// megabytes for the network, whatever the number of rows up to 50,000.
// Gives false when a value is not finite; `out` is unspecified then.
bool column_means(const Rows& rows, const ColumnRule& rule, const StateDict* added,
                  std::span<float> out, Workers& workers);

}  // namespace muster
