#include "core/train/clip.h"

#include <algorithm>
#include <cmath>

namespace muster {
namespace {

// Sums that run side by side, so that the loop can be cut into vectors without changing the order.
constexpr std::size_t kLanes = 16;

template <bool Proximal>
double sum_of_squares(std::size_t n, const float* __restrict gradient, const float* __restrict w,
                      const float* __restrict global, float mu) {
  double sums[kLanes] = {};
  const auto square = [&](std::size_t i) {
    float g = gradient[i];
    if constexpr (Proximal) g += mu * (w[i] - global[i]);
    return static_cast<double>(g) * static_cast<double>(g);
  };
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += square(i + lane);
  }
  for (std::size_t lane = 0; i < n; ++i, ++lane) sums[lane] += square(i);
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace

double gradient_norm(const StateDict& gradient, const StateDict& w,
                     std::span<const Graph::Range> ranges, const ProximalTerm& proximal) {
  double sum = 0;
  for (const Graph::Range& range : ranges) {
    const auto n = static_cast<std::size_t>(range.size);
    const float* g = gradient.values().data() + range.offset;
    const float* x = w.values().data() + range.offset;
    if (proximal.active()) {
      sum += sum_of_squares<true>(n, g, x, proximal.global->values().data() + range.offset,
                                  static_cast<float>(proximal.mu));
    } else {
      sum += sum_of_squares<false>(n, g, x, nullptr, 0);
    }
  }
  return std::sqrt(sum);
}

double clip_scale(double norm, double max_norm) {
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace muster
