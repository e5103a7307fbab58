#include "core/train/clip.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/base/random.h"

namespace muster {
namespace {

StateDict random_state(std::int64_t size, std::uint64_t seed) {
  StateDict state(*StateLayout::create({{"w", {size}}}));
  Random random(seed);
  for (float& value : state.values()) value = static_cast<float>(random.normal());
  return state;
}

TEST(GradientNorm, IsTheEuclideanNormOverTheRanges) {
  for (const std::int64_t size : {1, 15, 16, 17, 1000}) {
    const StateDict gradient = random_state(size, 1);
    const std::array ranges{Graph::Range{0, size / 2},
                            Graph::Range{size / 2 + 1, size - size / 2 - 1}};
    double sum = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      if (i != size / 2) sum += std::pow(double{gradient.values()[static_cast<std::size_t>(i)]}, 2);
    }
    EXPECT_NEAR(gradient_norm(gradient, gradient, ranges, {}), std::sqrt(sum), 1e-12 * (1 + sum));
  }
}

TEST(GradientNorm, CountsTheProximalGradient) {
  const StateDict w = random_state(333, 1);
  const StateDict global = random_state(333, 2);
  StateDict gradient = random_state(333, 3);
  const std::array ranges{Graph::Range{0, 333}};
  const double fused = gradient_norm(gradient, w, ranges, {.mu = 0.3, .global = &global});
  add_proximal_gradient(gradient.values(), w.values(), global.values(), 0.3);
  EXPECT_EQ(fused, gradient_norm(gradient, w, ranges, {}));
}

TEST(GradientNorm, OfTheLargestFloatsIsFinite) {
  StateDict gradient = random_state(100, 1);
  const std::array ranges{Graph::Range{0, 100}};
  for (float& value : gradient.values()) value = std::numeric_limits<float>::max();
  EXPECT_NEAR(
      gradient_norm(gradient, gradient, ranges, {}) / (10.0 * std::numeric_limits<float>::max()),
      1.0, 1e-12);
}

TEST(GradientNorm, IsNotFiniteWhenAnElementIsNot) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    StateDict gradient = random_state(100, 1);
    const std::array ranges{Graph::Range{0, 100}};
    gradient.values()[98] = bad;
    EXPECT_FALSE(std::isfinite(gradient_norm(gradient, gradient, ranges, {})));
  }
}

TEST(ClipScale, IsThatOfTorch) {
  EXPECT_EQ(clip_scale(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_scale(0.0, 1.0), 1.0);
  EXPECT_EQ(clip_scale(4.0, 1.0), 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(clip_scale(1.0, 1.0), 1.0 / (1.0 + 1e-6)) << "a norm at the limit shrinks a little";
}

}  // namespace
}  // namespace muster
