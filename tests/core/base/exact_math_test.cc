#include "core/base/exact_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace muster {
namespace {

TEST(ExactMath, LogIsTheLogarithm) {
  for (double x = 1e-300; x < 1e300; x *= 3.7) {
    EXPECT_NEAR(exact_log(x), std::log(x), 1e-15 * std::abs(std::log(x)) + 1e-16) << x;
  }
  EXPECT_EQ(exact_log(1), 0);
}

TEST(ExactMath, ExpIsTheExponential) {
  for (double x = -700; x < 700; x += 0.37) {
    EXPECT_NEAR(exact_exp(x) / std::exp(x), 1, 1e-14) << x;
  }
  EXPECT_EQ(exact_exp(0), 1);
  EXPECT_EQ(exact_exp(-1e9), 0);
  EXPECT_EQ(exact_exp(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_TRUE(std::isnan(exact_exp(std::numeric_limits<double>::quiet_NaN())));
}

TEST(ExactMath, CosineTakesTurns) {
  for (double t = 0; t < 1; t += 0.0037) {
    EXPECT_NEAR(exact_cos_of_turns(t), std::cos(2 * std::numbers::pi * t), 1e-15) << t;
  }
  EXPECT_EQ(exact_cos_of_turns(0), 1);
  EXPECT_EQ(exact_cos_of_turns(0.5), -1);
}

TEST(ExactMath, IntegerPowerMultiplies) {
  EXPECT_EQ(integer_power(3, 0), 1);
  EXPECT_EQ(integer_power(3, 5), 243);
  EXPECT_EQ(integer_power(0.5, 1074), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(integer_power(0.9, std::numeric_limits<std::int64_t>::max()), 0);
  EXPECT_NEAR(integer_power(0.999, 12345), std::pow(0.999, 12345), 1e-15);
}

}  // namespace
}  // namespace muster
