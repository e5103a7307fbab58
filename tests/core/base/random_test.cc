#include "core/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace muster {
namespace {

// Made with an independent program in Python (integers of any length), following the authors' C
// code.
TEST(Random, AgreesWithXoshiro256StarStar) {
  Random zero(0);
  EXPECT_EQ(zero.next(), 0x99ec5f36cb75f2b4U);
  EXPECT_EQ(zero.next(), 0xbf6e1f784956452aU);
  EXPECT_EQ(zero.next(), 0x1a5f849d4933e6e0U);
  Random seeded(42);
  EXPECT_EQ(seeded.next(), 0x15780b2e0c2ec716U);
  EXPECT_EQ(seeded.next(), 0x6104d9866d113a7eU);
}

TEST(Random, BelowStaysBelowAndReachesEverything) {
  Random random(3);
  for (const std::uint64_t bound : {1U, 2U, 3U, 7U, 10U}) {
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 1000; ++i) seen.insert(random.below(bound));
    EXPECT_EQ(seen.size(), bound);
    EXPECT_EQ(*seen.rbegin(), bound - 1);
  }
}

// With bound 3 * 2^62 a plain modulo, or Lemire's product without its rejection, gives one third of
// the results twice as often as the others.
TEST(Random, BelowHasNoModuloBias) {
  Random random(4);
  constexpr std::uint64_t kThird = std::uint64_t{1} << 62;
  std::array<int, 3> counts{};
  constexpr int kDraws = 60'000;
  for (int i = 0; i < kDraws; ++i) ++counts[random.below(3 * kThird) / kThird];
  std::array<int, 3> low_bits{};
  for (int i = 0; i < kDraws; ++i) ++low_bits[random.below(3 * kThird) % 3];
  for (const auto& histogram : {counts, low_bits}) {
    for (const int count : histogram) EXPECT_NEAR(count, kDraws / 3, 600);  // 5 sigma
  }
}

TEST(Random, UniformIsInTheHalfOpenInterval) {
  Random random(5);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
}

// The formula with the C library's functions, which differ from ours by a few units in the last
// place.
TEST(Random, NormalIsBoxAndMullersFormula) {
  Random drawn(6);
  Random source(6);
  for (int i = 0; i < 100'000; ++i) {
    const double u1 = 1 - source.uniform();
    const double u2 = source.uniform();
    const double want = std::sqrt(-2 * std::log(u1)) * std::cos(2 * M_PI * u2);
    ASSERT_NEAR(drawn.normal(), want, 1e-14 * (1 + std::abs(want))) << i;
  }
}

TEST(Random, NormalHasTheMomentsOfTheStandardNormal) {
  Random random(7);
  constexpr int kDraws = 400'000;
  std::array<double, 5> moments{};
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    for (int k = 1; k <= 4; ++k) moments[static_cast<std::size_t>(k)] += std::pow(x, k) / kDraws;
  }
  EXPECT_NEAR(moments[1], 0, 0.008);
  EXPECT_NEAR(moments[2], 1, 0.012);
  EXPECT_NEAR(moments[3], 0, 0.03);
  EXPECT_NEAR(moments[4], 3, 0.08);
}

TEST(Random, GammaHasMeanAndVarianceEqualToItsShape) {
  for (const double shape : {0.05, 0.5, 1.0, 2.5, 100.0}) {
    Random random(8);
    constexpr int kDraws = 200'000;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double value = random.gamma(shape);
      ASSERT_GE(value, 0);
      ASSERT_TRUE(std::isfinite(value));
      sum += value;
      squares += value * value;
    }
    const double mean = sum / kDraws;
    const double variance = squares / kDraws - mean * mean;
    EXPECT_NEAR(mean, shape, 6 * std::sqrt(shape / kDraws)) << shape;
    // The variance of the sample variance is (2 a^2 + 6 a) / n for Gamma(a, 1).
    EXPECT_NEAR(variance, shape, 6 * std::sqrt((2 * shape * shape + 6 * shape) / kDraws)) << shape;
  }
}

// Bit patterns, so that a change of compiler, flags or C library that moves one bit is seen.
TEST(Random, NormalAndGammaHaveFixedBits) {
  Random random(2024);
  std::uint64_t mixed = 0;
  for (int i = 0; i < 1000; ++i) {
    mixed = std::rotl(mixed, 7) ^ std::bit_cast<std::uint64_t>(random.normal());
    mixed = std::rotl(mixed, 7) ^ std::bit_cast<std::uint64_t>(random.gamma(0.3));
    mixed = std::rotl(mixed, 7) ^ std::bit_cast<std::uint64_t>(random.gamma(4));
  }
  EXPECT_EQ(mixed, 0xd06adc98c3472a27U);
}

TEST(Random, ShufflePermutesAndIsFixedBySeed) {
  std::vector<int> items(100);
  std::iota(items.begin(), items.end(), 0);
  std::vector<int> first = items;
  std::vector<int> second = items;
  Random(9).shuffle(first);
  Random(9).shuffle(second);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, items);
  std::sort(first.begin(), first.end());
  EXPECT_EQ(first, items);
}

TEST(Random, ShuffleGivesEveryOrderEquallyOften) {
  Random random(10);
  std::map<std::vector<int>, int> counts;
  for (int i = 0; i < 60'000; ++i) {
    std::vector<int> items{1, 2, 3};
    random.shuffle(items);
    ++counts[items];
  }
  ASSERT_EQ(counts.size(), 6U);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 10'000, 460);  // 5 sigma
}

// SHA-256 of the seed's and the labels' bytes, computed with Python's hashlib.
TEST(DeriveSeed, IsTheDocumentedDigest) {
  EXPECT_EQ(derive_seed(1, {}), 0xa63f41d436a19f7cU);
  EXPECT_EQ(derive_seed(1, {"round", "7"}), 0x8dd9aa5d5e8e78efU);
}

TEST(DeriveSeed, TellsLabelsApartWhereverTheyAreCut) {
  std::set<std::uint64_t> seeds{derive_seed(1, {}),
                                derive_seed(1, {""}),
                                derive_seed(1, {"", ""}),
                                derive_seed(1, {"ab", "c"}),
                                derive_seed(1, {"a", "bc"}),
                                derive_seed(1, {"abc"}),
                                derive_seed(1, {"c", "ab"}),
                                derive_seed(2, {"abc"}),
                                derive_seed(1, {std::string_view("\1\0\0\0\0\0\0\0a", 9)}),
                                derive_seed(1, {"a"})};
  EXPECT_EQ(seeds.size(), 10U);
}

}  // namespace
}  // namespace muster
