#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/aggregate/aggregator.h"
#include "core/base/random.h"
#include "tests/support/vectors.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

LayoutPtr vector_layout(std::int64_t size) {
  return *StateLayout::create({{"w", {size}}});
}

struct Device {
  std::string name;
  std::int64_t examples = 0;
  std::vector<float> values;
};

Contribution contribution(const LayoutPtr& layout, const Device& device) {
  return {device.name, *layout, device.values, device.examples};
}

std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

std::vector<float> mean_of(const std::vector<Device>& devices) {
  const LayoutPtr layout = vector_layout(static_cast<std::int64_t>(devices[0].values.size()));
  const auto mean = make_weighted_mean(layout);
  for (const Device& device : devices) {
    const auto status = mean->accumulate(contribution(layout, device));
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }
  const auto state = mean->finish();
  EXPECT_TRUE(state.has_value()) << state.error().message;
  return {state->values().begin(), state->values().end()};
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
    std::vector<Device> devices(1 + random.below(6));
    for (Device& device : devices) {
      device.examples = static_cast<std::int64_t>(1 + random.below(1U << 20));
      device.values.resize(50);
      for (float& value : device.values) {
        const auto whole = static_cast<std::int64_t>(random.below(1U << 25)) - (1 << 24);
        value = std::ldexp(static_cast<float>(whole), -20);
      }
    }
    const auto mean = mean_of(devices);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      Wide sum = 0;
      Wide total = 0;
      for (const Device& device : devices) {
        const auto whole = static_cast<std::int64_t>(std::ldexp(device.values[i], 20));
        sum += static_cast<Wide>(whole) * device.examples;
        total += device.examples;
      }
      ASSERT_TRUE(is_nearest(mean[i], total, sum << (kScale - 20), kScale))
          << "element " << i << " of round " << round << ": " << mean[i];
    }
  }
}

TEST(WeightedMean, IsTheNearestFloatForWeightsUpTo60Bits) {
  Random random(12);
  constexpr int kScale = 24;
  for (int round = 0; round < 300; ++round) {
    std::vector<Device> devices(2 + random.below(3));
    for (Device& device : devices) {
      device.examples = static_cast<std::int64_t>(1 + random.below(std::uint64_t{1} << 60));
      device.values.resize(20);
      for (float& value : device.values) {
        value = static_cast<float>((1U << 23) + random.below(1U << 23)) / 65536.0F;
      }
    }
    const auto mean = mean_of(devices);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      Wide sum = 0;
      Wide total = 0;
      for (const Device& device : devices) {
        sum += static_cast<Wide>(std::ldexp(device.values[i], 16)) * device.examples;
        total += device.examples;
      }
      ASSERT_TRUE(is_nearest(mean[i], total, sum << (kScale - 16), kScale)) << mean[i];
    }
  }
}

TEST(WeightedMean, RoundsOnceNotTwice) {
  // The means are 1 + 2^-24 + 2^-53 and 1 + 2^-24 - 2^-53, just beside half way between 1 and the
  // next float. A double in between would be exactly half way, and both would go to 1.
  const float value = 1.0F + std::ldexp(1.0F, -23);
  const auto above = mean_of({{"a", 1 << 29, {1.0F}},
                              {"b", (1 << 29) - 1, {value}},
                              {"c", 1, {value + std::ldexp(1.0F, -23)}}});
  EXPECT_EQ(above[0], value);
  const auto below =
      mean_of({{"a", 1 << 29, {1.0F}}, {"b", (1 << 29) - 1, {value}}, {"c", 1, {1.0F}}});
  EXPECT_EQ(below[0], 1.0F);
}

TEST(WeightedMean, DividesByATotalThatDoesNotFitADouble) {
  // Half of an odd total holds the next float: just above and just below half way, by 2^-78.
  const std::int64_t half = std::int64_t{1} << 53;
  const float value = 1.0F + std::ldexp(1.0F, -23);
  EXPECT_EQ(mean_of({{"a", half, {1.0F}}, {"b", half + 1, {value}}})[0], value);
  EXPECT_EQ(mean_of({{"a", half + 1, {1.0F}}, {"b", half, {value}}})[0], 1.0F);
}

TEST(WeightedMean, TakesProductsWithLargeWeightsExactly) {
  // All bits of value and weight are set; but for one example the contributions cancel.
  const std::int64_t weight = (std::int64_t{1} << 55) - 1;
  const float value = 16777215.0F;
  const auto mean = mean_of({{"a", weight, {value}}, {"b", weight - 1, {-value}}});
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
  for (const std::int64_t examples :
       {std::int64_t{1}, std::int64_t{3}, std::int64_t{600}, (std::int64_t{1} << 29) + 1,
        (std::int64_t{1} << 53) + 1, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(bits_of(mean_of({{"a", examples, values}})), bits_of(values)) << examples;
  }
}

TEST(WeightedMean, OfNothingButNegativeZerosIsNegativeZero) {
  EXPECT_TRUE(std::signbit(mean_of({{"a", 3, {-0.0F}}, {"b", 5, {-0.0F}}})[0]));
  EXPECT_FALSE(std::signbit(mean_of({{"a", 3, {-0.0F}}, {"b", 5, {0.0F}}})[0]));
  EXPECT_FALSE(std::signbit(mean_of({{"a", 3, {-2.0F}}, {"b", 3, {2.0F}}})[0]));
}

TEST(WeightedMean, OfDenormalsRoundsToTheNearestDenormal) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(mean_of({{"a", 1, {tiny * 5}}, {"b", 3, {tiny * 2}}})[0], tiny * 3);  // 2.75
}

// N-04
TEST(WeightedMean, N04_OfTheLargestFloatsIsTheLargestFloat) {
  const float largest = std::numeric_limits<float>::max();
  std::vector<Device> devices;
  for (int i = 0; i < 50; ++i) devices.push_back({"d", 10'000'000 + i, {largest, -largest}});
  EXPECT_EQ(mean_of(devices), (std::vector<float>{largest, -largest}));
}

TEST(WeightedMean, CancelsExactly) {
  const std::vector<float> mean =
      mean_of({{"a", 7, {3e37F}}, {"b", 7, {-3e37F}}, {"c", 2, {1e-3F}}});
  EXPECT_EQ(mean[0], static_cast<float>(static_cast<double>(1e-3F) * 2 / 16));
}

// N-10
TEST(WeightedMean, N10_SameOrderGivesTheSameBitsWhateverOrderUpdatesArriveIn) {
  Random random(3);
  std::vector<Device> devices;
  for (int i = 0; i < 20; ++i) {
    Device device{
        fmt::format("device-{}", 10 + i), static_cast<std::int64_t>(1 + random.below(1000)), {}};
    for (int k = 0; k < 200; ++k) {
      device.values.push_back(
          std::ldexp(static_cast<float>(random.normal()), static_cast<int>(random.below(80)) - 40));
    }
    devices.push_back(std::move(device));
  }
  const auto wanted = bits_of(mean_of(devices));
  for (int i = 0; i < 20; ++i) {
    random.shuffle(devices);
    std::sort(devices.begin(), devices.end(),
              [](const Device& a, const Device& b) { return a.name < b.name; });
    EXPECT_EQ(bits_of(mean_of(devices)), wanted);
  }
}

// --- refusals ---

class WeightedMeanRefusal : public ::testing::Test {
 protected:
  // A refused contribution must leave the aggregate bit for bit as it was.
  void expect_refused(const Contribution& bad, std::string_view reason, const std::string& words) {
    const auto mean = make_weighted_mean(layout_);
    ASSERT_TRUE(mean->accumulate(contribution(layout_, good_)).has_value());
    const auto verdict = mean->validate(bad);
    ASSERT_FALSE(verdict.has_value());
    const auto status = mean->accumulate(bad);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().message, verdict.error().message);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(status.error().reason, reason);
    EXPECT_THAT(status.error().message, HasSubstr("device-09"));
    EXPECT_THAT(status.error().message, HasSubstr(words));
    ASSERT_TRUE(mean->accumulate(contribution(layout_, other_)).has_value());
    EXPECT_EQ(bits_of(mean->finish()->values()), bits_of(mean_of({good_, other_})));
  }

  const LayoutPtr layout_ = vector_layout(4);
  const Device good_{"device-01", 3, {1.0F, -2.0F, 0.1F, -0.0F}};
  const Device other_{"device-02", 4, {0.3F, 1e20F, -0.1F, -0.0F}};
};

// N-01, N-02
TEST_F(WeightedMeanRefusal, N01_ValuesThatAreNotFinite) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (std::size_t place = 0; place < 4; ++place) {
      Device bad{"device-09", 5, {1, 2, 3, 4}};
      bad.values[place] = value;
      expect_refused(contribution(layout_, bad), "non_finite", "w");
    }
  }
}

TEST_F(WeightedMeanRefusal, NegativeExamples) {
  const Device bad{"device-09", -1, {1, 2, 3, 4}};
  expect_refused(contribution(layout_, bad), "bad_examples", "-1");
}

// N-09
TEST_F(WeightedMeanRefusal, N09_WeightsWhoseSumOverflows) {
  const Device bad{"device-09", std::numeric_limits<std::int64_t>::max() - 2, {1, 2, 3, 4}};
  expect_refused(contribution(layout_, bad), "bad_examples", "64-bit");
}

TEST_F(WeightedMeanRefusal, OtherLayouts) {
  const Device bad{"device-09", 5, {1, 2, 3, 4}};
  const LayoutPtr transposed = *StateLayout::create({{"w", {2, 2}}});
  expect_refused(contribution(transposed, bad), "shape_mismatch", "[2, 2]");
  const LayoutPtr more = *StateLayout::create({{"w", {4}}, {"b", {0}}});
  expect_refused(contribution(more, bad), "extra_tensor", "b");
  const LayoutPtr none = *StateLayout::create({});
  expect_refused(contribution(none, {"device-09", 5, {}}), "missing_tensor", "w");
}

TEST_F(WeightedMeanRefusal, ValuesThatDoNotFillTheLayout) {
  const Device bad{"device-09", 5, {1, 2, 3}};
  expect_refused(contribution(layout_, bad), "shape_mismatch", "3 values");
}

TEST_F(WeightedMeanRefusal, N06_AllWeightsZeroAndTheAggregateStaysOpen) {
  const auto mean = make_weighted_mean(layout_);
  for (int i = 0; i < 2; ++i) {
    const auto state = mean->finish();
    ASSERT_FALSE(state.has_value());
    EXPECT_EQ(state.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(state.error().reason, "no_contributors");
    const Device zero{"z", 0, {1, 2, 3, 4}};
    ASSERT_TRUE(mean->accumulate(contribution(layout_, zero)).has_value());
  }
  ASSERT_TRUE(mean->accumulate(contribution(layout_, good_)).has_value());
  EXPECT_EQ(bits_of(mean->finish()->values()), bits_of(good_.values));
}

TEST_F(WeightedMeanRefusal, EverythingAfterFinish) {
  const auto mean = make_weighted_mean(layout_);
  ASSERT_TRUE(mean->accumulate(contribution(layout_, good_)).has_value());
  ASSERT_TRUE(mean->finish().has_value());
  EXPECT_EQ(mean->finish().error().reason, "finished");
  EXPECT_EQ(mean->accumulate(contribution(layout_, good_)).error().reason, "finished");
  EXPECT_EQ(mean->validate(contribution(layout_, good_)).error().reason, "finished");
}

}  // namespace
}  // namespace muster
