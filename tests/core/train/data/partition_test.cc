#include "core/train/data/partition.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "core/base/random.h"

namespace muster {
namespace {

std::vector<std::int32_t> make_labels(std::size_t count, std::uint64_t classes) {
  Random random(9);
  std::vector<std::int32_t> labels(count);
  for (auto& label : labels) label = static_cast<std::int32_t>(random.below(classes));
  return labels;
}

std::set<std::int32_t> classes_of(const std::vector<std::int64_t>& part,
                                  const std::vector<std::int32_t>& labels) {
  std::set<std::int32_t> classes;
  for (const auto at : part) classes.insert(labels[static_cast<std::size_t>(at)]);
  return classes;
}

using Make = Result<Parts> (*)(const std::vector<std::int32_t>&, std::int64_t, std::uint64_t);

const std::vector<std::pair<const char*, Make>> kWays{
    {"iid",
     [](const auto& labels, std::int64_t parts, std::uint64_t seed) {
       return partition_iid(static_cast<std::int64_t>(labels.size()), parts, seed);
     }},
    {"shards", [](const auto& labels, std::int64_t parts,
                  std::uint64_t seed) { return partition_shards(labels, parts, 2, seed); }},
    {"dirichlet", [](const auto& labels, std::int64_t parts,
                     std::uint64_t seed) { return partition_dirichlet(labels, parts, 0.5, seed); }},
    {"dirichlet_tiny_alpha", [](const auto& labels, std::int64_t parts, std::uint64_t seed) {
       return partition_dirichlet(labels, parts, 1e-4, seed);
     }}};

TEST(Partition, EveryExampleIsInExactlyOnePart) {
  for (const auto& [name, make] : kWays) {
    for (const std::size_t count : {20U, 101U, 1000U}) {
      for (const std::int64_t parts : {1, 3, 10}) {
        SCOPED_TRACE(testing::Message() << name << " " << count << " " << parts);
        const auto result = make(make_labels(count, 7), parts, 4);
        ASSERT_TRUE(result) << result.error().message;
        ASSERT_EQ(std::ssize(*result), parts);
        std::vector<std::int64_t> all;
        for (const auto& part : *result) {
          EXPECT_TRUE(std::is_sorted(part.begin(), part.end()));
          all.insert(all.end(), part.begin(), part.end());
        }
        std::sort(all.begin(), all.end());
        ASSERT_EQ(all.size(), count);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(all[i], static_cast<std::int64_t>(i));
        }
      }
    }
  }
}

TEST(Partition, IsFixedByTheSeed) {
  const auto labels = make_labels(500, 10);
  for (const auto& [name, make] : kWays) {
    SCOPED_TRACE(name);
    EXPECT_EQ(*make(labels, 10, 1), *make(labels, 10, 1));
    EXPECT_NE(*make(labels, 10, 1), *make(labels, 10, 2));
  }
}

TEST(Partition, IidPartsDifferByOneAtMostAndAreMixed) {
  const auto parts = partition_iid(103, 10, 1);
  ASSERT_TRUE(parts);
  for (const auto& part : *parts) {
    EXPECT_GE(part.size(), 10U);
    EXPECT_LE(part.size(), 11U);
    EXPECT_GT(part.back() - part.front(), 40);
  }
}

TEST(Partition, TwoShardsOfEvenClassesGiveTwoClassesAPart) {
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 1000; ++i) labels.push_back(i % 10);
  const auto parts = partition_shards(labels, 10, 2, 3);
  ASSERT_TRUE(parts);
  std::set<std::set<std::int32_t>> different;
  for (const auto& part : *parts) {
    EXPECT_EQ(part.size(), 100U);
    const auto classes = classes_of(part, labels);
    EXPECT_LE(classes.size(), 2U);
    different.insert(classes);
  }
  EXPECT_GT(different.size(), 3U);
}

TEST(Partition, SmallAlphaIsSkewedAndLargeAlphaEven) {
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 10'000; ++i) labels.push_back(i % 10);
  const auto largest_share = [&](double alpha) {
    const auto parts = partition_dirichlet(labels, 10, alpha, 5);
    std::size_t largest = 0;
    for (const auto& part : *parts) {
      std::vector<std::size_t> counts(10);
      for (const auto at : part) ++counts[static_cast<std::size_t>(at % 10)];
      largest = std::max(largest, *std::ranges::max_element(counts));
    }
    return static_cast<double>(largest) / 1000.0;
  };
  EXPECT_GT(largest_share(0.05), 0.8);
  EXPECT_LT(largest_share(1000.0), 0.12);
}

TEST(Partition, RefusesFewerExamplesThanPiecesAndBadNumbers) {
  const auto labels = make_labels(9, 3);
  EXPECT_FALSE(partition_iid(9, 10, 1));
  EXPECT_FALSE(partition_iid(9, 0, 1));
  EXPECT_FALSE(partition_shards(labels, 5, 2, 1));
  EXPECT_FALSE(partition_shards(labels, 5, 0, 1));
  EXPECT_FALSE(partition_shards(labels, 1'000'000'000'000, 1'000'000, 1));
  for (const double alpha : {0.0, -1.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(partition_dirichlet(labels, 2, alpha, 1)) << alpha;
  }
  EXPECT_THAT(partition_iid(9, 10, 1).error().message, testing::HasSubstr("9 examples"));
}

}  // namespace
}  // namespace muster
