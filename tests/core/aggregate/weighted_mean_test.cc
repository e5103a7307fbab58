#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "tests/core/aggregate/devices.h"

// The arithmetic of the weighted mean, through FedAvg.
namespace muster::aggregating {
namespace {

using ::testing::HasSubstr;

LayoutPtr vector_layout(std::int64_t size) {
  return *StateLayout::create({{"w", {size}}});
}

struct Part {
  std::int64_t examples = 0;
  std::vector<float> values;
};

// Contributors are named in order.
std::vector<float> mean_of(const std::vector<Part>& parts) {
  const LayoutPtr layout = vector_layout(static_cast<std::int64_t>(parts[0].values.size()));
  const StateDict global(layout);
  const auto mean = aggregator(FedAvg{}, {.global = &global});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto status = mean->accumulate({.contributor = fmt::format("device-{:03}", i),
                                          .values = view_of(*layout, parts[i].values),
                                          .examples = parts[i].examples});
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }
  const auto outcome = mean->finish();
  EXPECT_TRUE(outcome.has_value()) << outcome.error().message;
  return {outcome->global.values().begin(), outcome->global.values().end()};
}

// --- the arithmetic, held against exact integers ---

__extension__ using Wide = __int128;

// |mean * total - sum| in units of 2^-scale, exact as long as it fits.
Wide distance(float mean, Wide total, Wide sum, int scale) {
  const Wide scaled = static_cast<Wide>(std::ldexp(static_cast<double>(mean), scale));
  const Wide difference = scaled * total - sum;
  return difference < 0 ? -difference : difference;
}

// Whether no float32 is nearer to sum / total (in units of 2^-scale) than `mean`.
bool is_nearest(float mean, Wide total, Wide sum, int scale) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Wide here = distance(mean, total, sum, scale);
  return here <= distance(std::nextafter(mean, infinity), total, sum, scale) &&
         here <= distance(std::nextafter(mean, -infinity), total, sum, scale);
}

TEST(WeightedMean, IsTheFloatNearestToTheExactMean) {
  Random random(11);
  constexpr int kScale = 66;
  for (int round = 0; round < 300; ++round) {
    std::vector<Part> parts(1 + random.below(6));
    for (Part& part : parts) {
      part.examples = static_cast<std::int64_t>(1 + random.below(1U << 20));
      part.values.resize(50);
      for (float& value : part.values) {
        const auto whole = static_cast<std::int64_t>(random.below(1U << 25)) - (1 << 24);
        value = std::ldexp(static_cast<float>(whole), -20);
      }
    }
    const auto mean = mean_of(parts);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      Wide sum = 0;
      Wide total = 0;
      for (const Part& part : parts) {
        const auto whole = static_cast<std::int64_t>(std::ldexp(part.values[i], 20));
        sum += static_cast<Wide>(whole) * part.examples;
        total += part.examples;
      }
      ASSERT_TRUE(is_nearest(mean[i], total, sum << (kScale - 20), kScale))
          << "element " << i << " of round " << round << ": " << mean[i];
    }
  }
}

TEST(WeightedMean, IsTheNearestFloatForWeightsUpTo53Bits) {
  Random random(12);
  constexpr int kScale = 24;
  for (int round = 0; round < 300; ++round) {
    std::vector<Part> parts(2 + random.below(3));
    for (Part& part : parts) {
      part.examples = static_cast<std::int64_t>(1 + random.below(std::uint64_t{1} << 53));
      part.values.resize(20);
      for (float& value : part.values) {
        value = static_cast<float>((1U << 23) + random.below(1U << 23)) / 65536.0F;
      }
    }
    const auto mean = mean_of(parts);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      Wide sum = 0;
      Wide total = 0;
      for (const Part& part : parts) {
        sum += static_cast<Wide>(std::ldexp(part.values[i], 16)) * part.examples;
        total += part.examples;
      }
      ASSERT_TRUE(is_nearest(mean[i], total, sum << (kScale - 16), kScale)) << mean[i];
    }
  }
}

TEST(WeightedMean, RoundsOnceNotTwice) {
  // The means are 1 + 2^-24 + 2^-53 and 1 + 2^-24 - 2^-53, just beside half way between 1 and the
  // next float. A double in between would be exactly half way, and both would go to 1.
  const float value = 1.0F + std::ldexp(1.0F, -23);
  const auto above =
      mean_of({{1 << 29, {1.0F}}, {(1 << 29) - 1, {value}}, {1, {value + std::ldexp(1.0F, -23)}}});
  EXPECT_EQ(above[0], value);
  const auto below = mean_of({{1 << 29, {1.0F}}, {(1 << 29) - 1, {value}}, {1, {1.0F}}});
  EXPECT_EQ(below[0], 1.0F);
}

TEST(WeightedMean, DividesByATotalThatDoesNotFitADouble) {
  // Half of an odd total holds the next float: just above and just below half way, by 2^-78.
  const std::int64_t half = (std::int64_t{1} << 53) - 1;
  const float value = 1.0F + std::ldexp(1.0F, -23);
  EXPECT_EQ(mean_of({{half, {1.0F}}, {half + 1, {value}}})[0], value);
  EXPECT_EQ(mean_of({{half + 1, {1.0F}}, {half, {value}}})[0], 1.0F);
}

TEST(WeightedMean, TakesProductsWithLargeWeightsExactly) {
  // All bits of value and weight are set; but for one example the contributions cancel.
  const std::int64_t weight = (std::int64_t{1} << 53) - 1;
  const float value = 16777215.0F;
  const auto mean = mean_of({{weight, {value}}, {weight - 1, {-value}}});
  EXPECT_EQ(mean[0], static_cast<float>(16777215.0 / static_cast<double>(2 * weight - 1)));
}

TEST(WeightedMean, OfOneContributorIsTheIdentityBitForBit) {
  Random random(5);
  std::vector<float> values = {0.0F,
                               -0.0F,
                               std::numeric_limits<float>::denorm_min(),
                               -std::numeric_limits<float>::denorm_min(),
                               std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::max(),
                               -std::numeric_limits<float>::max(),
                               1.0F / 3.0F};
  while (values.size() < 20'000) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
    if (std::isfinite(value)) values.push_back(value);
  }
  for (const std::int64_t examples : {std::int64_t{1}, std::int64_t{3}, std::int64_t{600},
                                      (std::int64_t{1} << 29) + 1, std::int64_t{1} << 53}) {
    EXPECT_EQ(bits_of(mean_of({{examples, values}})), bits_of(values)) << examples;
  }
}

TEST(WeightedMean, OfNothingButNegativeZerosIsNegativeZero) {
  EXPECT_TRUE(std::signbit(mean_of({{3, {-0.0F}}, {5, {-0.0F}}})[0]));
  EXPECT_FALSE(std::signbit(mean_of({{3, {-0.0F}}, {5, {0.0F}}})[0]));
  EXPECT_FALSE(std::signbit(mean_of({{3, {-2.0F}}, {3, {2.0F}}})[0]));
}

TEST(WeightedMean, OfDenormalsRoundsToTheNearestDenormal) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(mean_of({{1, {tiny * 5}}, {3, {tiny * 2}}})[0], tiny * 3);  // 2.75
}

// N-04
TEST(WeightedMean, N04_OfTheLargestFloatsIsTheLargestFloat) {
  const float largest = std::numeric_limits<float>::max();
  std::vector<Part> parts;
  for (int i = 0; i < 50; ++i) parts.push_back({10'000'000 + i, {largest, -largest}});
  EXPECT_EQ(mean_of(parts), (std::vector<float>{largest, -largest}));
}

TEST(WeightedMean, CancelsExactly) {
  const std::vector<float> mean = mean_of({{7, {3e37F}}, {7, {-3e37F}}, {2, {1e-3F}}});
  EXPECT_EQ(mean[0], static_cast<float>(static_cast<double>(1e-3F) * 2 / 16));
}

// --- what a mean leaves as it is ---

TEST(WeightedMean, N09_RefusesCountsThatDoubleDoNotHold) {
  const LayoutPtr layout = vector_layout(1);
  const StateDict global(layout);
  const auto mean = aggregator(FedAvg{}, {.global = &global});
  const std::vector<float> values = {1};
  const auto status = mean->accumulate({.contributor = "device-09",
                                        .values = view_of(*layout, values),
                                        .examples = std::numeric_limits<std::int64_t>::max()});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().reason, "bad_examples");
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("device-09"), HasSubstr("9007199254740992")));
}

TEST(WeightedMean, N06_OfNoWeightAtAllIsAnErrorAndTheAggregateStaysOpen) {
  const LayoutPtr layout = vector_layout(2);
  const StateDict global(layout);
  const std::vector<float> values = {0.25F, -0.0F};
  const auto mean = aggregator(FedAvg{}, {.global = &global});
  for (const char* name : {"a", "b"}) {
    const auto outcome = mean->finish();
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(outcome.error().reason, "no_contributors");
    ASSERT_TRUE(
        mean->accumulate({.contributor = name, .values = view_of(*layout, values)}).has_value());
  }
  ASSERT_TRUE(
      mean->accumulate({.contributor = "c", .values = view_of(*layout, values), .examples = 3})
          .has_value());
  const auto outcome = mean->finish();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(bits_of(outcome->global.values()), bits_of(values));
}

TEST(WeightedMean, OfAContributorWithoutExamplesIsThatOfTheOthers) {
  const std::vector<Part> parts = {{3, {1.0F}}, {0, {1e30F}}, {1, {2.0F}}};
  EXPECT_EQ(mean_of(parts)[0], 1.25F);
}

TEST(WeightedMean, OfDeltasIsAddedToTheGlobalStateAndRoundedOnce) {
  const LayoutPtr layout = vector_layout(1);
  StateDict global(layout);
  global.values()[0] = 1.0F;
  // 2^-24 + 2^-60: rounded by itself first it would be half way, and the sum would go to 1.
  const std::vector<float> delta = {std::ldexp(1.0F, -24)};
  const std::vector<float> more = {std::ldexp(1.0F, -24) + std::ldexp(1.0F, -47)};
  const auto mean = aggregator(FedAvg{}, {.global = &global, .content = UpdateContent::kDelta});
  ASSERT_TRUE(
      mean->accumulate(
              {.contributor = "a", .values = view_of(*layout, delta), .examples = (1 << 13) - 1})
          .has_value());
  ASSERT_TRUE(
      mean->accumulate({.contributor = "b", .values = view_of(*layout, more), .examples = 1})
          .has_value());
  EXPECT_EQ(mean->finish()->global.values()[0], std::nextafter(1.0F, 2.0F));
}

TEST(UniformMean, DoesNotLookAtExamples) {
  const LayoutPtr layout = vector_layout(1);
  const StateDict global(layout);
  const std::vector<float> one = {1}, two = {2};
  const auto mean = aggregator(UniformMean{}, {.global = &global});
  ASSERT_TRUE(
      mean->accumulate({.contributor = "a", .values = view_of(*layout, one), .examples = 900})
          .has_value());
  ASSERT_TRUE(mean->accumulate({.contributor = "b", .values = view_of(*layout, two), .examples = 0})
                  .has_value());
  EXPECT_EQ(mean->finish()->global.values()[0], 1.5F);
}

}  // namespace
}  // namespace muster::aggregating
