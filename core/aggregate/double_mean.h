#pragma once

#include <cstdint>

#include "core/aggregate/long_accumulator.h"

namespace muster {

// The weighted mean of doubles: exact, and rounded once, to nearest with ties to even. So it is the
// same in any order, one value is the identity, and so are equal ones (-0.0 too; beside 0.0 it
// counts as that). A value, 700 bytes.
class DoubleMean {
 public:
  // At most 2^20 of them.
  //   value    finite
  //   weight   1 to 2^53
  void add(double value, std::int64_t weight);

  // Of at least one.
  double mean() const;

 private:
  __extension__ using Wide = __int128;

  // sum += factor * value, exactly; |factor| below 2^96.
  static void add_product(LongAccumulator& sum, Wide factor, double value);
  // The sign of the mean - (a + b) / 2.
  int side(double a, double b) const;

  LongAccumulator twice_;  // twice the weighted sum
  Wide weight_ = 0;
  double first_ = 0;
  bool all_equal_ = true;  // bit for bit
};

}  // namespace muster
