#include "core/aggregate/linear/mean_weights.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <numeric>
#include <optional>

namespace muster {
namespace {

__extension__ using Wide = __int128;

constexpr int kDoubleBits = 53;

// Powers of two that doubles may have apart without any product or sum leaving their normal range.
constexpr int kRange = 300;

int exponent_of(double value) {
  return std::ilogb(value);
}

// The exponent of a number's last bit that is set.
int last_bit(double value) {
  int exponent = 0;
  const auto significand =
      static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), kDoubleBits));
  return exponent - kDoubleBits + std::countr_zero(static_cast<std::uint64_t>(significand));
}

// The weights as whole multiples of 2^unit; nothing when one takes more than 62 bits.
struct WholeWeights {
  std::vector<std::int64_t> values;
  int unit = 0;
};
std::optional<WholeWeights> whole_weights(const std::vector<double>& weights) {
  WholeWeights whole;
  whole.unit = INT_MAX;
  for (const double weight : weights) whole.unit = std::min(whole.unit, last_bit(weight));
  for (const double weight : weights) {
    if (exponent_of(weight) - whole.unit > 61) return std::nullopt;
    whole.values.push_back(static_cast<std::int64_t>(std::ldexp(weight, -whole.unit)));
  }
  return whole;
}

// The divisor in units of 2^unit, when that is a whole number below 2^120.
std::optional<Wide> whole_divisor(DoubleDouble divisor, int unit) {
  Wide sum = 0;
  for (const double part : {divisor.high, divisor.low}) {
    if (part == 0) continue;
    if (last_bit(part) < unit || exponent_of(part) - unit > 119) return std::nullopt;
    const int shift = last_bit(part) - unit;
    const auto odd = static_cast<Wide>(std::ldexp(part, -last_bit(part)));
    sum += odd * (Wide{1} << shift);
  }
  return sum;
}

void set_divisor(MeanWeights& result, double divisor, bool exact) {
  int exponent = 0;
  const double fraction = std::frexp(divisor, &exponent);
  constexpr std::uint64_t kBeyond28Bits = (std::uint64_t{1} << 25) - 1;
  result.divisor = divisor;
  result.power_of_two = exact && fraction == 0.5;
  result.decides_ties = exact && (std::bit_cast<std::uint64_t>(divisor) & kBeyond28Bits) == 0;
}

// The weights and the divisor by their greatest common factor.
void reduce(MeanWeights& result, const WholeWeights& whole, DoubleDouble divisor,
            std::size_t num_doubled) {
  std::int64_t factor = 0;
  for (const std::int64_t value : whole.values) factor = std::gcd(factor, value);
  const auto dividend = whole_divisor(divisor, whole.unit);
  factor = dividend ? std::gcd(factor, static_cast<std::int64_t>(*dividend % factor)) : 1;
  if (dividend) {
    const Wide quotient = *dividend / factor;
    const auto rounded = static_cast<double>(quotient);
    set_divisor(result, rounded, static_cast<Wide>(rounded) == quotient);
  } else {
    set_divisor(result, std::ldexp(divisor.high, -whole.unit), divisor.low == 0);
  }
  Wide total = 0;
  for (std::size_t i = 0; i < whole.values.size(); ++i) {
    const std::int64_t weight = whole.values[i] / factor;
    result.weights.push_back(static_cast<double>(weight));
    const Wide size = weight < 0 ? -static_cast<Wide>(weight) : weight;
    total += i < num_doubled ? 2 * size : size;
  }
  // Every partial sum is a multiple of the smallest magnitude's last bit, 23 below its exponent,
  // and below total * 2^(the largest's exponent + 1), so it has at most 53 bits when
  // log2(total) + span + 24 <= 53.
  constexpr int kSpareBits = 29;
  if (total <= Wide{1} << kSpareBits) {
    result.exact_span =
        kSpareBits - static_cast<int>(std::bit_width(static_cast<std::uint64_t>(total) - 1));
  }
}

}  // namespace

MeanWeights mean_weights(const std::vector<double>& weights, std::size_t num_centred,
                         DoubleDouble divisor) {
  MeanWeights result;
  if (weights.empty()) return result;
  int most = INT_MIN;
  int least = INT_MAX;
  for (const double weight : weights) {
    most = std::max(most, exponent_of(weight));
    least = std::min(least, exponent_of(weight));
  }
  if (most - least > kRange || std::abs(exponent_of(divisor.high) - most) > kRange) return result;
  result.usable = true;
  if (const auto whole = whole_weights(weights)) {
    // A difference of two values can be twice as large as they are.
    reduce(result, *whole, divisor, num_centred);
  } else {
    for (const double weight : weights) result.weights.push_back(std::ldexp(weight, -most));
    set_divisor(result, std::ldexp(divisor.high, -most), divisor.low == 0);
  }
  // Each term is rounded when it is centred, multiplied and added, the quotient when the divisor
  // is, when it is divided and when its error is added; each time by at most 2^-53 of what the sum
  // of all magnitudes, or its quotient, can be.
  double total = 0;
  for (const double weight : result.weights) total += std::abs(weight);
  const double roundings = static_cast<double>(weights.size()) + 8;
  result.error = total / result.divisor * roundings * 0x1.01p-53;
  return result;
}

}  // namespace muster
