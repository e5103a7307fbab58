#include "core/aggregate/double_mean.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace muster {

void DoubleMean::add_product(LongAccumulator& sum, Wide factor, double value) {
  constexpr Wide kDigit = 0xffffffff;
  const Wide magnitude = factor < 0 ? -factor : factor;
  const double sign = factor < 0 ? -1 : 1;
  for (int digit = 0; digit < 3; ++digit) {
    const auto part = static_cast<double>(magnitude >> (32 * digit) & kDigit);
    sum.add(std::ldexp(sign * part, 32 * digit), value);
  }
}

void DoubleMean::add(double value, std::int64_t weight) {
  if (weight_ == 0) first_ = value;
  all_equal_ =
      all_equal_ && std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(first_);
  add_product(twice_, Wide{2} * weight, value);
  weight_ += weight;
}

int DoubleMean::side(double a, double b) const {
  LongAccumulator rest = twice_;
  add_product(rest, -weight_, a);
  add_product(rest, -weight_, b);
  return rest.sign();
}

double DoubleMean::mean() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kLargest = std::numeric_limits<double>::max();
  if (all_equal_) return first_;
  LongAccumulator twice = twice_;
  const LongAccumulator::Approximate top = twice.approximate();
  if (top.fraction == 0) return 0;
  double low = std::ldexp(top.fraction / static_cast<double>(weight_), top.exponent - 1);
  low = std::clamp(low, -kLargest, kLargest);  // a mean of finite numbers is within their range
  // `low` is within a few units in the last place; now the largest double that is not above.
  while (side(low, low) < 0) low = std::nextafter(low, -kInfinity);
  double high = std::nextafter(low, kInfinity);
  while (high <= kLargest && side(high, high) >= 0) {
    low = high;
    high = std::nextafter(low, kInfinity);
  }
  if (high > kLargest || side(low, low) == 0) return low;
  const int half = side(low, high);
  if (half != 0) return half < 0 ? low : high;
  return (std::bit_cast<std::uint64_t>(low) & 1) == 0 ? low : high;
}

}  // namespace muster
