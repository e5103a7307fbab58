#include "core/aggregate/linear/exact_elements.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/aggregate/linear/exact_quotient.h"

namespace muster {

void ExactElements::decide(const MeanOf& mean, const Sources& sources, std::int64_t begin,
                           std::span<const std::int32_t> places, std::span<float> out) {
  constexpr std::size_t kAtOnce = 256;  // sums that fit the second cache
  while (!places.empty()) {
    const auto some = places.first(std::min(places.size(), kAtOnce));
    places = places.subspan(some.size());
    sums_.assign(some.size(), {});
    kinds_.assign(some.size(), Kind::kNegativeZero);
    for (const Source& source : sources.all()) add(mean, source, begin, some);
    for (std::size_t i = 0; i < some.size(); ++i) {
      float& result = out[static_cast<std::size_t>(begin + some[i])];
      if (kinds_[i] == Kind::kSum) {
        result = divide_to_float(sums_[i], mean.divisor);
      } else {
        const bool zero = kinds_[i] == Kind::kNegativeZero;
        result = zero ? -0.0F : std::numeric_limits<float>::quiet_NaN();
      }
    }
  }
}

void ExactElements::add(const MeanOf& mean, const Source& source, std::int64_t begin,
                        std::span<const std::int32_t> places) {
  const std::int64_t first = begin + places.front();
  const std::int64_t count = places.back() - places.front() + 1;
  const float* values = source.read(first, count, scratch_.data());
  const bool centred = mean.centre != nullptr && source.values != nullptr;
  const float* centre = centred ? mean.centre->values().data() + first : nullptr;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto at = places[i] - places.front();
    const double value = values[at];
    const double middle = centred ? static_cast<double>(centre[at]) : 0;
    const double change = centred ? value - middle : value;
    if (!std::isfinite(change)) {
      kinds_[i] = Kind::kNotANumber;
      continue;
    }
    sums_[i].add(value, source.weight);
    sums_[i].add(-middle, source.weight);
    const bool negative_zero = change == 0 && std::signbit(change) != (source.weight < 0);
    if (!negative_zero && kinds_[i] == Kind::kNegativeZero) kinds_[i] = Kind::kSum;
  }
  if (source.values != nullptr) source.values->release(first, count);
}

}  // namespace muster
