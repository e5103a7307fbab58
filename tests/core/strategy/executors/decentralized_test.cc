#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/strategy/executors/split_rows.h"
#include "core/train/batch_order.h"
#include "tests/core/strategy/strategy_support.h"

namespace muster {
namespace {

using strategies::data_parallel;
using strategies::must_fit;
using strategies::Problem;
using strategies::relative_distance;

// D-PSGD as its paper has it, from the gradients of a TrainingRun of one step: x_i <- sum_j W_ij
// x_j
// - lr g_i(x_i). Plain SGD, so a step of one replica on its share is -lr g_i.
StateDict dpsgd(const Problem& problem, Topology topology, std::int64_t replicas) {
  const StrategyTask& task = problem.task;
  const TrainingSeeds seeds(task.seed);
  BatchOrder order(task.data.train.size(), task.settings, seeds.order);
  const Neighbours neighbours = neighbours_of(topology, replicas);
  const MixingWeights weights = metropolis_weights(neighbours);
  const std::vector<std::int64_t> shares(static_cast<std::size_t>(replicas), 1);
  std::vector<StateDict> x;
  for (std::int64_t i = 0; i < replicas; ++i) x.push_back(problem.start.clone());
  for (std::int64_t step = 0; step < order.total_steps(); ++step) {
    const auto batch = order.batch(step);
    const auto rows = split_rows(static_cast<std::int64_t>(batch.size()), shares);
    std::vector<StateDict> next;
    auto begin = batch.begin();
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto replica = *Replica::create(problem.graph, task.data.train, x[i], task.settings);
      const std::vector<std::int64_t> positions(begin, begin + rows[i]);
      begin += rows[i];
      EXPECT_TRUE(replica.compute_gradient(
          {.positions = positions,
           .normaliser = static_cast<double>(batch.size()) / static_cast<double>(replicas)}));
      next.push_back(problem.start.clone());
      for (std::size_t k = 0; k < next[i].values().size(); ++k) {
        double mixed = weights.own[i] * static_cast<double>(x[i].values()[k]);
        for (std::size_t n = 0; n < neighbours[i].size(); ++n) {
          mixed += weights.of_neighbours[i][n] *
                   static_cast<double>(x[static_cast<std::size_t>(neighbours[i][n])].values()[k]);
        }
        next[i].values()[k] = static_cast<float>(
            mixed - task.settings.optimizer.lr *
                        static_cast<double>(replica.weights().gradient().values()[k]));
      }
    }
    x = std::move(next);
  }
  StateDict average(problem.start.layout_ptr());
  for (std::size_t k = 0; k < average.values().size(); ++k) {
    double sum = 0;
    for (const StateDict& one : x) sum += static_cast<double>(one.values()[k]);
    average.values()[k] = static_cast<float>(sum / static_cast<double>(replicas));
  }
  return average;
}

class Topologies : public testing::TestWithParam<Topology> {};

TEST_P(Topologies, StepsAsThePaperHasThemAndEndsWithTheAverage) {
  const Problem problem;
  const auto context = strategies::workers(5);
  const StrategyResult result =
      must_fit(*context, data_parallel(5, Decentralized{.topology = GetParam()}), problem.task);
  EXPECT_LT(relative_distance(result.state, dpsgd(problem, GetParam(), 5)), 1e-5);
  EXPECT_EQ(result.steps, 15);
  const Json& distances = result.report.at("consensus_distance");
  ASSERT_EQ(distances.size(), 3U) << "one an epoch";
  for (const Json& distance : distances) EXPECT_GT(distance.get<double>(), 0);
}
INSTANTIATE_TEST_SUITE_P(All, Topologies,
                         testing::Values(Topology::kRing, Topology::kTorus, Topology::kComplete,
                                         Topology::kExponential, Topology::kStar),
                         [](const auto& test) { return to_string(test.param); });

TEST(DecentralizedFit, TheTopologyDecidesWhoHearsWhomAndHowManyBytesMove) {
  const Problem problem;
  const auto context = strategies::workers(5);
  const auto run = [&](Topology topology) {
    return must_fit(*context, data_parallel(5, Decentralized{.topology = topology}), problem.task);
  };
  const StrategyResult ring = run(Topology::kRing);
  const StrategyResult complete = run(Topology::kComplete);
  EXPECT_FALSE(ring.state == complete.state);
  const std::uint64_t model = strategies::model_bytes(problem.start);
  // The start to each and three times the states back; each step, every edge both ways.
  EXPECT_EQ(ring.bytes_moved, (5 + 3 * 5 + 15 * 5 * 2) * model);
  EXPECT_EQ(complete.bytes_moved, (5 + 3 * 5 + 15 * 5 * 4) * model);
  EXPECT_LT(complete.report.at("consensus_distance").back(),
            ring.report.at("consensus_distance").back());
}

TEST(DecentralizedFit, OneReplicaIsLocal) {
  const Problem problem;
  const auto context = strategies::workers(1);
  const StrategyResult result = must_fit(*context, data_parallel(1, Decentralized{}), problem.task);
  EXPECT_TRUE(result.state == problem.trained().state);
}

}  // namespace
}  // namespace muster
