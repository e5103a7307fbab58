#pragma once

#include <gmpxx.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/aggregate/linear/exact_mean.h"
#include "core/base/random.h"

// Means by rational arithmetic, which shares nothing with how core/aggregate does them.
namespace muster {

// The float32 nearest to `value`, ties to even; a zero is 0.0.
inline float nearest_float(const mpq_class& value) {
  const int sign = sgn(value);
  if (sign == 0) return 0.0F;
  const mpq_class size = abs(value);
  // In units of the last place: 2^(exponent - 23), but at least 2^-149.
  const auto exponent = static_cast<std::int64_t>(mpz_sizeinbase(size.get_num_mpz_t(), 2)) -
                        static_cast<std::int64_t>(mpz_sizeinbase(size.get_den_mpz_t(), 2));
  for (std::int64_t unit = std::max<std::int64_t>(exponent - 25, -149);; ++unit) {
    mpz_class numerator = size.get_num();
    mpz_class denominator = size.get_den();
    if (unit < 0) {
      numerator <<= static_cast<mp_bitcnt_t>(-unit);
    } else {
      denominator <<= static_cast<mp_bitcnt_t>(unit);
    }
    mpz_class quotient = numerator / denominator;
    const mpz_class twice = 2 * (numerator - quotient * denominator);
    if (twice > denominator || (twice == denominator && mpz_odd_p(quotient.get_mpz_t()) != 0)) {
      ++quotient;
    }
    if (quotient > (1 << 24)) continue;  // more than 24 bits: a larger unit
    if (unit > 104) return static_cast<float>(sign) * std::numeric_limits<float>::infinity();
    return static_cast<float>(sign * std::ldexp(quotient.get_d(), static_cast<int>(unit)));
  }
}

struct ReferenceTerm {
  double weight = 0;
  std::vector<float> values;
};

// A mean to be done both ways.
struct MeanCase {
  std::vector<ReferenceTerm> terms;
  DoubleDouble divisor = {1, 0};
  std::vector<float> centre;
  DoubleDouble base_weight = {0, 0};
  std::vector<float> base;

  std::size_t size() const { return terms[0].values.size(); }
};

inline mpq_class rational(DoubleDouble value) {
  return mpq_class(value.high) + mpq_class(value.low);
}

inline std::vector<float> rational_mean(const MeanCase& mean) {
  std::vector<float> result(mean.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    mpq_class sum = 0;
    for (const ReferenceTerm& term : mean.terms) {
      mpq_class value(term.values[i]);
      if (!mean.centre.empty()) value -= mpq_class(mean.centre[i]);
      sum += mpq_class(term.weight) * value;
    }
    if (!mean.base.empty()) sum += rational(mean.base_weight) * mpq_class(mean.base[i]);
    result[i] = nearest_float(sum / rational(mean.divisor));
  }
  return result;
}

inline StateDict state_of(const std::vector<float>& values) {
  StateDict state(*StateLayout::create({{"w", {static_cast<std::int64_t>(values.size())}}}));
  std::copy(values.begin(), values.end(), state.values().begin());
  return state;
}

inline std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

// The same case for exact_mean, with what it refers to.
class Prepared {
 public:
  explicit Prepared(const MeanCase& from) {
    for (const ReferenceTerm& term : from.terms) {
      owned_.push_back(values_of(state_of(term.values)));
      mean_.terms.push_back({owned_.back().get(), term.weight});
    }
    mean_.divisor = from.divisor;
    mean_.base_weight = from.base_weight;
    if (!from.centre.empty()) centre_ = state_of(from.centre);
    if (!from.base.empty()) base_ = state_of(from.base);
    if (centre_) mean_.centre = &*centre_;
    if (base_) mean_.base = &*base_;
    size_ = from.size();
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  MeanOf& mean() { return mean_; }
  std::size_t size() const { return size_; }

 private:
  std::vector<ValuesPtr> owned_;
  std::optional<StateDict> centre_;
  std::optional<StateDict> base_;
  MeanOf mean_;
  std::size_t size_ = 0;
};

// Any finite float32 with exponents in [low, high], one in eight a zero of either sign.
inline float any_float(Random& random, int low, int high) {
  if (random.below(8) == 0) return random.below(2) == 0 ? 0.0F : -0.0F;
  const auto exponents = static_cast<std::uint64_t>(high - low + 1);
  const int exponent = low + static_cast<int>(random.below(exponents));
  const double significand = 1 + std::ldexp(static_cast<double>(random.below(1U << 23)), -23);
  const auto value = static_cast<float>(std::ldexp(significand, exponent));
  return random.below(2) == 0 ? value : -value;
}

}  // namespace muster
