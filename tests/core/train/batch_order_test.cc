#include "core/train/batch_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::Not;

std::vector<std::int64_t> epoch_of(BatchOrder& order, std::int64_t epoch) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < order.steps_per_epoch(); ++i) {
    const auto batch = order.batch(epoch * order.steps_per_epoch() + i);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

TEST(BatchOrder, WithoutShufflingBatchesFollowTheData) {
  BatchOrder order(5, {.epochs = 2, .batch_size = 2, .shuffle = false}, 1);
  EXPECT_EQ(order.steps_per_epoch(), 3);
  EXPECT_EQ(order.total_steps(), 6);
  EXPECT_THAT(order.batch(0), ElementsAre(0, 1));
  EXPECT_THAT(order.batch(2), ElementsAre(4));
  EXPECT_THAT(order.batch(4), ElementsAre(2, 3));
}

TEST(BatchOrder, ShufflesAnewEachEpochAndEachExampleComesOnce) {
  const LocalSettings settings{.epochs = 3, .batch_size = 7};
  BatchOrder order(40, settings, 1);
  const auto first = epoch_of(order, 0);
  const auto second = epoch_of(order, 1);
  EXPECT_NE(first, second);
  auto sorted = first;
  std::ranges::sort(sorted);
  for (std::int64_t i = 0; i < 40; ++i) EXPECT_EQ(sorted[static_cast<std::size_t>(i)], i);

  BatchOrder again(40, settings, 1);
  EXPECT_EQ(epoch_of(again, 1), second) << "whatever was asked for before";
  EXPECT_EQ(epoch_of(again, 0), first);
  BatchOrder other(40, settings, 2);
  EXPECT_NE(epoch_of(other, 0), first);
}

TEST(BatchOrder, ABatchIsNoLargerThanTheDataAndMaxStepsEndsIt) {
  BatchOrder order(3, {.epochs = 4, .max_steps = 2, .batch_size = 10, .shuffle = false}, 1);
  EXPECT_EQ(order.batch_size(), 3);
  EXPECT_EQ(order.total_steps(), 2);
  EXPECT_THAT(order.batch(1), ElementsAre(0, 1, 2));
}

TEST(TrainingSeeds, AreApart) {
  const TrainingSeeds seeds(5);
  EXPECT_EQ(seeds.own, 5U);
  EXPECT_NE(seeds.order, seeds.draws);
  EXPECT_EQ(seeds.of_step(3), seeds.draws + 3);
}

}  // namespace
}  // namespace muster
