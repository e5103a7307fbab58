#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace muster {

// An exact sum of products of a short number (a float32, or the middle of two) with any double: a
// fixed-point number wide enough for all of them (Kulisch's long accumulator). A value, 640 bytes;
// about 5 ns a product.
class LongAccumulator {
 public:
  // Adds short_factor * factor.
  //   short_factor  finite, a multiple of 2^-150 with at most 43 significant bits, below 2^129
  // At most 2^30 of them.
  void add(double short_factor, double factor) {
    if (short_factor == 0 || factor == 0) return;
    const Parts a = parts(short_factor);
    const Parts b = parts(factor);
    const int place = a.exponent + b.exponent - kLowest;
    Wide product = static_cast<Wide>(a.significand) * b.significand << (place % kDigitBits);
    const bool negative = std::signbit(short_factor) != std::signbit(factor);
    for (auto digit = static_cast<std::size_t>(place / kDigitBits); product != 0; ++digit) {
      const auto piece = static_cast<std::int64_t>(product & kDigitMask);
      digits_[digit] += negative ? -piece : piece;
      product >>= kDigitBits;
    }
  }

  // Its value as fraction * 2^exponent with a relative error below 2^-52, |fraction| in [1, 2), or
  // 0 if and only if it is zero. Carries; changes no value.
  struct Approximate {
    double fraction = 0;
    int exponent = 0;
  };
  Approximate approximate() {
    const bool negative = carry() < 0;
    if (negative) negate();
    std::size_t top = kDigits;
    while (top > 0 && digits_[top - 1] == 0) --top;
    Approximate result;
    if (top != 0) {
      Wide leading = 0;
      for (std::size_t i = 0; i < 3; ++i) {
        leading = leading << kDigitBits | (i < top ? static_cast<Wide>(digits_[top - 1 - i]) : 0);
      }
      int shift = 0;
      const double scaled = std::frexp(static_cast<double>(leading), &shift);
      result.fraction = negative ? -2 * scaled : 2 * scaled;
      result.exponent = shift - 1 + (static_cast<int>(top) - 3) * kDigitBits + kLowest;
    }
    if (negative) negate();
    return result;
  }

  // -1, 0 or 1. Carries; changes no value.
  int sign() {
    if (carry() < 0) return -1;
    for (const std::int64_t digit : digits_) {
      if (digit != 0) return 1;
    }
    return 0;
  }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr int kDigitBits = 32;
  static constexpr std::int64_t kDigitMask = 0xffffffff;
  // 2^-150 times the smallest double, and 2^(129 + 1024 + 30) above.
  static constexpr int kLowest = -150 - 1074;
  static constexpr std::size_t kDigits = 77;

  // A magnitude as significand * 2^exponent, the significand odd.
  struct Parts {
    std::uint64_t significand;
    int exponent;
  };
  static Parts parts(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const int field = static_cast<int>(bits >> 52 & 0x7ff);
    std::uint64_t significand = bits & ((std::uint64_t{1} << 52) - 1);
    if (field != 0) significand |= std::uint64_t{1} << 52;
    const int zeros = std::countr_zero(significand);
    return {significand >> zeros, (field == 0 ? 1 : field) - 1075 + zeros};
  }

  // Brings all digits but the last into [0, 2^32). Returns the last: its sign is the number's.
  std::int64_t carry() {
    std::int64_t over = 0;
    for (std::size_t i = 0; i + 1 < kDigits; ++i) {
      const std::int64_t digit = digits_[i] + over;
      over = digit >> kDigitBits;
      digits_[i] = digit & kDigitMask;
    }
    return digits_[kDigits - 1] += over;
  }

  void negate() {
    for (std::int64_t& digit : digits_) digit = -digit;
    carry();
  }

  std::array<std::int64_t, kDigits> digits_{};
};

}  // namespace muster
