#include "core/train/replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "core/train/partition_replica.h"
#include "tests/core/train/training_support.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ReplicaTest : public testing::Test {
 protected:
  ReplicaTest()
      : graph_(*graph_from_model(training::model_with(
            {{{"id", "fc1"}, {"op", "dense"}, {"units", 8}},
             {{"id", "act"}, {"op", "tanh"}},
             {{"id", "fc2"}, {"op", "dense"}, {"units", 2}}},
            {{"type", "softmax_cross_entropy"}, {"class_weights", {3.0, 0.5}}}))),
        data_(training::make_data(20)),
        start_(graph_.initial_state(1)) {
    settings_.batch_size = 12;
    settings_.accumulate = 3;
    settings_.optimizer.lr = 0.1;
    positions_.resize(12);
    std::iota(positions_.begin(), positions_.end(), 3);
  }

  Replica replica() const { return *Replica::create(graph_, data_, start_, settings_); }

  Graph graph_;
  Dataset data_;
  StateDict start_;
  LocalSettings settings_;
  std::vector<std::int64_t> positions_;
};

TEST_F(ReplicaTest, UnequalSharesUnderTheWholesNormaliserAddUpToTheBatch) {
  Replica whole = replica();
  const ShareFigures figures = *whole.compute_gradient({.positions = positions_});
  StateDict sum(start_.layout_ptr());
  double loss = 0;
  std::int64_t correct = 0;
  Replica part = replica();
  const std::span<const std::int64_t> all(positions_);
  for (const auto& share : {all.first(1), all.subspan(1, 9), all.subspan(10), all.first(0)}) {
    const ShareFigures its =
        *part.compute_gradient({.positions = share, .normaliser = figures.normaliser});
    loss += its.loss;
    correct += its.correct.value_or(0);
    for (std::size_t i = 0; i < sum.values().size(); ++i) {
      sum.values()[i] += part.weights().gradient().values()[i];
    }
  }
  EXPECT_NEAR(loss, figures.loss, 1e-6);
  EXPECT_EQ(correct, figures.correct);
  for (std::size_t i = 0; i < sum.values().size(); ++i) {
    EXPECT_NEAR(sum.values()[i], whole.weights().gradient().values()[i], 1e-6);
  }
}

TEST_F(ReplicaTest, ErrorsNameTheStepAndWhereItBegan) {
  Replica one = replica();
  std::ranges::fill(one.weights().w().values(), std::numeric_limits<float>::max());
  const auto blown = one.compute_gradient({.positions = positions_, .at = {4, 9}});
  ASSERT_FALSE(blown);
  EXPECT_EQ(blown.error().reason, "non_finite");
  EXPECT_THAT(blown.error().message, AllOf(HasSubstr("step 5 of 9"), HasSubstr("the loss is")));

  Replica other = replica();
  ASSERT_TRUE(other.compute_gradient({.positions = positions_}));
  EXPECT_TRUE(other.weights().check_gradient({4, 9}));
  other.weights().gradient().tensor("fc1.bias")[2] = std::numeric_limits<float>::infinity();
  for (const Status& bad : {other.weights().check_gradient({4, 9}), other.apply({4, 9})}) {
    ASSERT_FALSE(bad);
    EXPECT_THAT(bad.error().message,
                AllOf(HasSubstr("step 5 of 9"), HasSubstr("fc1.bias"), HasSubstr("element 2")));
  }
}

TEST_F(ReplicaTest, PartitionsRefuseWhatDoesNotFitAndKeepWhatTheyHad) {
  auto partition =
      PartitionReplica::create(graph_, start_, settings_, {.nodes = {"fc2"}, .max_micro_batch = 4});
  ASSERT_TRUE(partition) << partition.error().message;
  EXPECT_THAT(partition->inputs(), testing::ElementsAre("act"));
  const auto message = [&](std::int64_t batch, Tensors inputs) {
    const auto refused = partition->forward(0, batch, std::move(inputs), 1);
    EXPECT_FALSE(refused);
    return refused ? "" : refused.error().message;
  };
  EXPECT_THAT(message(5, {std::vector<float>(40)}), HasSubstr("1 to 4"));
  EXPECT_THAT(message(0, {std::vector<float>(0)}), HasSubstr("1 to 4"));
  EXPECT_THAT(message(4, {}), HasSubstr("0 inputs"));
  EXPECT_THAT(message(4, {std::vector<float>(31)}), AllOf(HasSubstr("act"), HasSubstr("31")));
  EXPECT_THAT(message(1, {std::vector<float>(8, std::numeric_limits<float>::quiet_NaN())}),
              HasSubstr("fc2"));
  EXPECT_FALSE(partition->apply({0, 1})) << "nothing was computed";
  ASSERT_TRUE(partition->forward(7, 4, {std::vector<float>(32, 1)}, 1));
  EXPECT_THAT(partition->forward(7, 4, {std::vector<float>(32, 1)}, 1).error().message,
              HasSubstr("micro-batch 7"));
  EXPECT_THAT(partition->backward(8, {std::vector<float>(8)}).error().message,
              HasSubstr("micro-batch 8"));
  EXPECT_FALSE(partition->backward(7, {std::vector<float>(7)}));
  EXPECT_EQ((*partition->backward(7, {std::vector<float>(8, 1)}))[0].size(), 32U);
  EXPECT_TRUE(partition->apply({0, 1}));
}

TEST_F(ReplicaTest, PartitionsOfUnknownOrNoNodesAreRefused) {
  EXPECT_FALSE(PartitionReplica::create(graph_, start_, settings_, {}));
  const auto unknown =
      PartitionReplica::create(graph_, start_, settings_, {.nodes = {"fc1", "fc9"}});
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("fc9"));
}

TEST_F(ReplicaTest, AnAbandonedStepLeavesNothingForTheNext) {
  const auto fresh = [&] {
    return *PartitionReplica::create(graph_, start_, settings_,
                                     {.nodes = {"fc2"}, .max_micro_batch = 4, .max_in_flight = 2});
  };
  const auto train = [](PartitionReplica& partition) {
    ASSERT_TRUE(partition.forward(0, 1, {std::vector<float>(8, 1)}, 1));
    ASSERT_TRUE(partition.backward(0, {{0.5F, -1}}));
  };
  PartitionReplica straight = fresh();
  train(straight);
  PartitionReplica twice = fresh();
  train(twice);
  ASSERT_TRUE(twice.forward(1, 1, {std::vector<float>(8, 2)}, 1));
  twice.abandon();
  train(twice);
  ASSERT_TRUE(straight.apply({0, 1}));
  ASSERT_TRUE(twice.apply({0, 1}));
  EXPECT_TRUE(straight.state() == twice.state());
}

}  // namespace
}  // namespace muster
