#include "core/train/data/synthetic.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/digest.h"
#include "core/train/data/data_spec.h"
#include "tests/core/train/data/data_support.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kFeatures = SyntheticModel::kFeatures;

struct Moments {
  double sum = 0;
  double squares = 0;
  double count = 0;

  void add(double x) {
    sum += x;
    squares += x * x;
    count += 1;
  }
  double mean() const { return sum / count; }
  double variance() const { return squares / count - mean() * mean(); }
};

Dataset device(const SyntheticOptions& options, std::uint64_t seed, std::int64_t k) {
  auto data = synthetic_device(options, seed, k);
  EXPECT_TRUE(data) << error_text(data);
  return data ? *std::move(data) : Dataset{};
}

LocalData load(const std::string& spec) {
  auto data = load_data(spec);
  EXPECT_TRUE(data) << spec << ": " << error_text(data);
  return data ? *std::move(data) : LocalData{};
}

// Over the features and then the labels, little-endian.
std::string bits_of(const Dataset& data) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span<const float>(features_of(data))));
  hash.update(std::as_bytes(std::span<const std::int32_t>(data.labels())));
  return hash.finish().hex();
}

// The values come from a second implementation, in Python, of the generator and its random numbers.
TEST(Synthetic, HasTheSameBitsOnEveryMachine) {
  const SyntheticOptions one{.alpha = 1, .beta = 1, .devices = 30};
  EXPECT_EQ(bits_of(device(one, 1, 0)),
            "6d985c65648feabc8b0c1dc7e90ebc238afc22b2ff3cd9be182770fcaef61586");
  EXPECT_EQ(bits_of(device(one, 1, 3)),
            "6aead0d03ed2b4b02c80f210c21e430da37cc9642803038d64f0fb9de828e91c");
  EXPECT_EQ(bits_of(device(one, 1, 29)),
            "0164a5bc0e73e1099e6845c7a04531a57edc16fcf8ae51dfba604a34bea55d6d");
  EXPECT_EQ(bits_of(device({.alpha = 0, .beta = 0.5, .devices = 3}, 7, 2)),
            "94c082f266d7f9e0fc1b30228f2fe103d72a01558e39485877e28e7c8c65bc3d");
}

TEST(Synthetic, AnotherSeedBetaOrDeviceIsOtherData) {
  const SyntheticOptions one{.alpha = 1, .beta = 1, .devices = 30};
  const std::set<std::string> all{bits_of(device(one, 1, 0)), bits_of(device(one, 2, 0)),
                                  bits_of(device({.alpha = 1, .beta = 0.5}, 1, 0)),
                                  bits_of(device(one, 1, 1))};
  EXPECT_EQ(all.size(), 4U);
}

TEST(Synthetic, AlphaShiftsTheLogitsOfAllClassesAlikeAndSoChangesNoLabel) {
  const SyntheticModel none = synthetic_model({.alpha = 0, .beta = 1}, 1, 3);
  const SyntheticModel some = synthetic_model({.alpha = 2, .beta = 1}, 1, 3);
  const double shift = some.bias[0] - none.bias[0];
  EXPECT_GT(std::abs(shift), 0.01);
  for (std::size_t c = 0; c < SyntheticModel::kClasses; ++c) {
    EXPECT_NEAR(some.bias[c] - none.bias[c], shift, 1e-12);
    for (std::size_t j = 0; j < kFeatures; ++j) {
      EXPECT_NEAR(some.weights[c][j] - none.weights[c][j], shift, 1e-12);
    }
  }
  EXPECT_EQ(some.means, none.means);
  EXPECT_EQ(bits_of(device({.alpha = 0, .beta = 1}, 1, 3)),
            bits_of(device({.alpha = 2, .beta = 1}, 1, 3)));
}

TEST(Synthetic, ADeviceHasTheSameDataHoweverManyThereAre) {
  EXPECT_EQ(bits_of(device({.devices = 3}, 5, 2)), bits_of(device({.devices = 1000}, 5, 2)));
}

TEST(Synthetic, AllDevicesFollowOneAnother) {
  const SyntheticOptions options{.alpha = 1, .beta = 1, .devices = 4};
  const auto all = synthetic_all(options, 9);
  ASSERT_TRUE(all) << error_text(all);
  std::vector<float> features;
  std::vector<std::int32_t> labels;
  for (std::int64_t k = 0; k < 4; ++k) {
    const Dataset own = device(options, 9, k);
    const std::vector<float> x = features_of(own);
    const std::vector<std::int32_t> y = own.labels();
    features.insert(features.end(), x.begin(), x.end());
    labels.insert(labels.end(), y.begin(), y.end());
  }
  EXPECT_EQ(features_of(*all), features);
  EXPECT_EQ(all->labels(), labels);
}

TEST(Synthetic, SizesAreLogNormalAbove50) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t k = 0; k < 10'000; ++k) sizes.push_back(synthetic_size(3, k));
  std::sort(sizes.begin(), sizes.end());
  EXPECT_GE(sizes.front(), 50);
  // The median, and one standard deviation to each side; their errors are 2 to 4 % each.
  EXPECT_NEAR(static_cast<double>(sizes[5000]) - 50, std::exp(4.0), 5);
  EXPECT_NEAR(static_cast<double>(sizes[8413]) - 50, std::exp(6.0), 40);
  EXPECT_NEAR(static_cast<double>(sizes[1587]) - 50, std::exp(2.0), 1.2);
}

TEST(Synthetic, FeaturesLieAroundTheDevicesMeansWithVariancesThatFall) {
  const SyntheticOptions options{.alpha = 1, .beta = 1, .devices = 100};
  std::vector<Moments> around(kFeatures);
  for (std::int64_t k = 0; k < options.devices; ++k) {
    const SyntheticModel model = synthetic_model(options, 11, k);
    const std::vector<float> x = features_of(device(options, 11, k));
    for (std::size_t i = 0; i < x.size(); ++i) {
      around[i % kFeatures].add(static_cast<double>(x[i]) - model.means[i % kFeatures]);
    }
  }
  ASSERT_GT(around[0].count, 10'000);
  for (std::size_t j = 0; j < kFeatures; ++j) {
    const double variance = std::pow(static_cast<double>(j + 1), -1.2);
    EXPECT_NEAR(around[j].variance() / variance, 1, 5 * std::sqrt(2 / around[j].count)) << j;
    EXPECT_NEAR(around[j].mean(), 0, 5 * std::sqrt(variance / around[j].count)) << j;
  }
}

// alpha and beta are standard deviations: as variances, 9 and 0.25 would be 3 and 0.5.
TEST(Synthetic, ModelsAndMeansSpreadByAlphaAndBetaAroundWhichTheirEntriesSpreadByOne) {
  const SyntheticOptions options{.alpha = 3, .beta = 0.5};
  Moments model_means;
  Moments feature_means;
  Moments weights;
  Moments biases;
  Moments means;
  for (std::int64_t k = 0; k < 2000; ++k) {
    const SyntheticModel model = synthetic_model(options, 4, k);
    Moments of_weights;
    for (const auto& row : model.weights) {
      for (const double weight : row) of_weights.add(weight);
    }
    Moments of_means;
    for (const double mean : model.means) of_means.add(mean);
    // W and b share their u_k.
    for (const double bias : model.bias) biases.add(bias - of_weights.mean());
    weights.add(of_weights.variance());
    means.add(of_means.variance());
    model_means.add(of_weights.mean());
    feature_means.add(of_means.mean());
  }
  EXPECT_NEAR(model_means.mean(), 0, 0.35);
  EXPECT_NEAR(model_means.variance(), 9 + 1.0 / 600, 1.4);
  EXPECT_NEAR(feature_means.mean(), 0, 0.06);
  EXPECT_NEAR(feature_means.variance(), 0.25 + 1.0 / 60, 0.04);
  EXPECT_NEAR(weights.mean(), 1, 0.02);
  EXPECT_NEAR(means.mean(), 59.0 / 60, 0.03);
  EXPECT_NEAR(biases.mean(), 0, 0.04);
  EXPECT_NEAR(biases.variance(), 1 + 1.0 / 600, 0.06);
}

TEST(Synthetic, LabelsAreTheMostProbableClassesOfTheDevicesModel) {
  const SyntheticOptions options{.alpha = 1, .beta = 1, .devices = 30};
  std::set<std::int32_t> seen;
  for (std::int64_t k = 0; k < options.devices; ++k) {
    const SyntheticModel model = synthetic_model(options, 1, k);
    const Dataset data = device(options, 1, k);
    const std::vector<float> x = features_of(data);
    const std::vector<std::int32_t> labels = data.labels();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      std::vector<long double> probability(SyntheticModel::kClasses);
      for (std::size_t c = 0; c < probability.size(); ++c) {
        long double logit = model.bias[c];
        for (std::size_t j = 0; j < kFeatures; ++j) {
          logit += static_cast<long double>(model.weights[c][j]) * x[i * kFeatures + j];
        }
        probability[c] = std::exp(logit);  // the sum they are divided by is the same
      }
      const auto most = std::max_element(probability.begin(), probability.end());
      ASSERT_EQ(labels[i], most - probability.begin()) << "device " << k << ", example " << i;
      seen.insert(labels[i]);
    }
  }
  EXPECT_EQ(seen.size(), SyntheticModel::kClasses);
}

TEST(Synthetic, RefusesMoreExamplesThanTheLimitInsteadOfCutting) {
  const SyntheticOptions options{.alpha = 1, .beta = 1, .devices = 3};
  const std::int64_t size = synthetic_size(1, 2);
  EXPECT_EQ(synthetic_device(options, 1, 2, {.examples = size})->size(), size);
  const auto one = synthetic_device(options, 1, 2, {.examples = size - 1});
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(one.error().reason, "too_many_examples");
  EXPECT_THAT(one.error().message,
              AllOf(HasSubstr("seed=1"), HasSubstr("device 2"), HasSubstr(std::to_string(size)),
                    HasSubstr("limit " + std::to_string(size - 1))));
  const std::int64_t all = size + synthetic_size(1, 0) + synthetic_size(1, 1);
  EXPECT_EQ(synthetic_all(options, 1, {.examples = all})->size(), all);
  EXPECT_THAT(error_text(synthetic_all(options, 1, {.examples = all - 1})),
              AllOf(HasSubstr("3 devices together"), HasSubstr(std::to_string(all))));
}

TEST(Synthetic, RefusesOptionsOutOfRange) {
  const std::vector<std::pair<SyntheticOptions, const char*>> cases{
      {{.alpha = -1}, "alpha=-1"},   {{.alpha = std::nan("")}, "alpha=nan"},
      {{.alpha = 101}, "alpha=101"}, {{.beta = -0.5}, "beta=-0.5"},
      {{.devices = 0}, "devices=0"}, {{.devices = 1001}, "devices=1001"},
      {{.devices = 2}, "shard=2/2"},
  };
  for (const auto& [options, wanted] : cases) {
    EXPECT_THAT(error_text(synthetic_device(options, 1, 2)), HasSubstr(wanted));
  }
  EXPECT_THAT(error_text(synthetic_all({.devices = 0}, 1)), HasSubstr("devices=0"));
  EXPECT_THAT(error_text(synthetic_device({}, 1, -1)), HasSubstr("shard=-1/30"));
}

TEST(SyntheticSpec, ReadsItsFields) {
  const auto spec =
      parse_data_spec("synthetic:alpha=0.5,beta=2;devices=40;shard=3/40;seed=8;holdout=0.2");
  ASSERT_TRUE(spec) << error_text(spec);
  EXPECT_EQ(spec->format, DataSpec::Format::kSynthetic);
  EXPECT_EQ(spec->synthetic.alpha, 0.5);
  EXPECT_EQ(spec->synthetic.beta, 2);
  EXPECT_EQ(spec->synthetic.devices, 40);
  EXPECT_EQ(spec->shard, 3);
  EXPECT_EQ(spec->seed, 8U);
  EXPECT_EQ(spec->holdout, 0.2);
  EXPECT_TRUE(spec->files().empty());
  EXPECT_EQ(parse_data_spec("synthetic:beta=0,alpha=0")->synthetic.devices, 30);
}

TEST(SyntheticSpec, AShardIsTheDevicesOwnDataWithItsOwnSize) {
  std::set<std::int64_t> sizes;
  for (std::int64_t k = 0; k < 30; ++k) {
    const LocalData data = load(
        "synthetic:alpha=1,beta=1;devices=30;seed=1;holdout=0;shard=" + std::to_string(k) + "/30");
    EXPECT_EQ(data.train.size(), synthetic_size(1, k));
    EXPECT_EQ(bits_of(data.train), bits_of(device({.alpha = 1, .beta = 1}, 1, k)));
    EXPECT_EQ(data.train.shape(), Shape{60});
    sizes.insert(data.train.size());
  }
  EXPECT_GT(sizes.size(), 20U);
}

TEST(SyntheticSpec, WithoutShardItIsAllDevices) {
  const LocalData all = load("synthetic:alpha=0,beta=0;devices=3;seed=2;holdout=0");
  EXPECT_EQ(all.train.size(), synthetic_size(2, 0) + synthetic_size(2, 1) + synthetic_size(2, 2));
  EXPECT_EQ(bits_of(load("synthetic:alpha=0,beta=0;devices=1;shard=0/1;holdout=0").train),
            bits_of(device({.alpha = 0, .beta = 0}, 0, 0)));
}

TEST(SyntheticSpec, KeepsAShareBackAsOtherFormatsDo) {
  const std::int64_t size = synthetic_size(1, 3);
  const LocalData data = load("synthetic:alpha=1,beta=1;seed=1;shard=3/30;holdout=0.25");
  EXPECT_EQ(data.holdout.size(), size / 4);
  EXPECT_EQ(data.train.size() + data.holdout.size(), size);
}

TEST(SyntheticSpec, RefusesBadFieldsByName) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"synthetic:", "no alpha"},
      {"synthetic:alpha=1", "no beta"},
      {"synthetic:;alpha=1;beta=1", "no alpha"},
      {"synthetic:alpha=1,beta", "field=value"},
      {"synthetic:alpha=1,alpha=1,beta=1", "alpha is there twice"},
      {"synthetic:alpha=-1,beta=1", "alpha=-1 found, a number from 0 to 100"},
      {"synthetic:alpha=1,beta=nan", "beta=nan found"},
      {"synthetic:alpha=101,beta=1", "alpha=101 found"},
      {"synthetic:alpha=1,beta=1,gamma=1", "unknown field gamma, known are alpha, beta"},
      {"synthetic:alpha=1,beta=1;devices=0", "devices=0 found, a whole number from 1 to 1000"},
      {"synthetic:alpha=1,beta=1;devices=1001;shard=0/1001", "devices=1001 found"},
      {"synthetic:alpha=1,beta=1;devices=2.5", "devices=2.5 found"},
      {"synthetic:alpha=1,beta=1;shard=3/10", "shard=3/10 found, K/30 with devices=30"},
      {"synthetic:alpha=1,beta=1;devices=40;shard=3/30", "K/40 with devices=40"},
      {"synthetic:alpha=1,beta=1;shard=30/30", "shard=30/30 found"},
      {"synthetic:alpha=1,beta=1;shard=0/30;split=iid", "unknown field split"},
      {"synthetic:alpha=1,beta=1;split=iid", "unknown field split"},
      {"synthetic:alpha=1,beta=1;shard=0/30;per_device=2", "unknown field per_device"},
      {"synthetic:alpha=1,beta=1;alpha=1", "unknown field alpha"},
      {"synthetic:alpha=1,beta=1;scale=1", "unknown field scale"},
      {"synthetic:alpha=1,beta=1;seed=-1", "seed=-1 found"},
  };
  for (const auto& [spec, wanted] : cases) {
    const auto parsed = parse_data_spec(spec);
    ASSERT_FALSE(parsed) << spec;
    EXPECT_EQ(parsed.error().reason, "bad_data_spec");
    EXPECT_THAT(parsed.error().message, HasSubstr(wanted)) << spec;
  }
  DataSpec spec;
  spec.format = DataSpec::Format::kSynthetic;
  spec.shards = 10;
  EXPECT_THAT(error_text(load_data(spec)), HasSubstr("shard=0/10 found, K/30"));
}

}  // namespace
}  // namespace muster
