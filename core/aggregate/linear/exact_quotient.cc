#include "core/aggregate/linear/exact_quotient.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace muster {
namespace {

// The float32 on either side of a quotient that is known up to `error`, far below half a unit in
// the last place: two neighbours, or one twice.
struct Candidates {
  float low;
  float high;

  // -(-q - e), so that -0.0 stays.
  Candidates(double quotient, double error)
      : low(static_cast<float>(quotient - error)), high(static_cast<float>(-(-quotient - error))) {}

  bool agree() const {
    return std::bit_cast<std::uint32_t>(low) == std::bit_cast<std::uint32_t>(high);
  }
  // Half way between the two; where one is infinite, where rounding to it begins.
  double middle() const {
    constexpr double kOverflow = 0x1.ffffffp127;
    if (std::isinf(high)) return kOverflow;
    if (std::isinf(low)) return -kOverflow;
    return (static_cast<double>(low) + static_cast<double>(high)) / 2;
  }
  // By the sign of the quotient's distance from the middle.
  float decide(int side) const {
    if (side != 0) return side < 0 ? low : high;
    return (std::bit_cast<std::uint32_t>(low) & 1) == 0 ? low : high;
  }
};

// The sign of sum - middle * divisor, and with it that of sum / divisor - middle.
int side_of(LongAccumulator sum, double middle, DoubleDouble divisor) {
  sum.add(-middle, divisor.high);
  sum.add(-middle, divisor.low);
  return sum.sign();
}

}  // namespace

float divide_to_float(LongAccumulator sum, DoubleDouble divisor) {
  const LongAccumulator::Approximate top = sum.approximate();
  if (top.fraction == 0) return 0.0F;
  int divisor_exponent = 0;
  const double divisor_fraction = std::frexp(divisor.high, &divisor_exponent);
  // Beyond these exponents it is zero or infinite in any case.
  const int exponent = std::clamp(top.exponent - divisor_exponent, -400, 400);
  const double quotient = std::ldexp(top.fraction / divisor_fraction, exponent);
  const Candidates candidates(quotient, std::abs(quotient) * 0x1.0p-48);
  if (candidates.agree()) return candidates.low;
  return candidates.decide(side_of(sum, candidates.middle(), divisor));
}

float divide_to_float(DoubleDouble sum, DoubleDouble divisor) {
  const double quotient = sum.high / divisor.high;
  const Candidates candidates(quotient, std::abs(quotient) * 0x1.0p-48);
  if (candidates.agree()) return candidates.low;
  const double middle = candidates.middle();
  // The common case, a divisor of at most 28 bits: the product is exact, and so is its difference
  // from a sum so near.
  constexpr std::uint64_t kBeyond28Bits = (std::uint64_t{1} << 25) - 1;
  if (divisor.low == 0 && (std::bit_cast<std::uint64_t>(divisor.high) & kBeyond28Bits) == 0) {
    const double difference = (sum.high - middle * divisor.high) + sum.low;
    return candidates.decide(difference < 0 ? -1 : difference > 0 ? 1 : 0);
  }
  LongAccumulator exact;
  exact.add(1, sum.high);
  exact.add(1, sum.low);
  return candidates.decide(side_of(exact, middle, divisor));
}

}  // namespace muster
