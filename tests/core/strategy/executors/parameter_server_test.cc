#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "core/strategy/executors/split_rows.h"
#include "core/train/batch_order.h"
#include "core/train/trained_weights.h"
#include "tests/core/strategy/strategy_support.h"

namespace muster {
namespace {

using strategies::data_parallel;
using strategies::must_fit;
using strategies::Problem;

// The synchronous server as its definition has it, one share after another: fetch, compute, add in
// the order of the workers, step.
StateDict synchronous(const Problem& problem, std::int64_t replicas) {
  const StrategyTask& task = problem.task;
  const auto context = strategies::workers(replicas);
  const TrainingPlan plan{.model = task.model, .settings = task.settings, .data = task.data};
  TrainedWeights server(problem.graph, problem.start, task.settings);
  const TrainingSeeds seeds(task.seed);
  BatchOrder order(task.data.train.size(), task.settings, seeds.order);
  const std::vector<std::int64_t> shares(static_cast<std::size_t>(replicas), 1);
  for (std::int64_t worker = 0; worker < replicas; ++worker) {
    EXPECT_TRUE(context->prepare(worker, plan, problem.start));
  }
  for (std::int64_t step = 0; step < order.total_steps(); ++step) {
    const auto batch = order.batch(step);
    const auto rows = split_rows(static_cast<std::int64_t>(batch.size()), shares);
    auto begin = batch.begin();
    std::ranges::fill(server.gradient().values(), 0.0F);
    for (std::int64_t worker = 0; worker < replicas; ++worker) {
      const auto end = begin + rows[static_cast<std::size_t>(worker)];
      StateDict gradient(problem.start.layout_ptr());
      EXPECT_TRUE(context->set_state(worker, server.w()));
      EXPECT_TRUE(context->get_gradients(
          worker, {.positions = {begin, end}, .normaliser = static_cast<double>(batch.size())},
          gradient));
      for (std::size_t i = 0; i < gradient.values().size(); ++i) {
        server.gradient().values()[i] += gradient.values()[i];
      }
      begin = end;
    }
    EXPECT_TRUE(server.step({step, order.total_steps()}));
  }
  return server.w().clone();
}

TEST(ParameterServerFit, StalenessZeroIsTheSynchronousServerBitForBit) {
  const Problem problem(Json{{"optimizer", {{"type", "adam"}, {"lr", 0.01}}}});
  const auto context = strategies::workers(3);
  const StrategyResult result =
      must_fit(*context, data_parallel(3, ParameterServer{.max_staleness = 0}), problem.task);
  EXPECT_TRUE(result.state == synchronous(problem, 3));
  EXPECT_EQ(result.report.at("max_staleness_seen"), 0);
}

// Holds one worker's computing until the other has done some shares more.
class Ahead {
 public:
  explicit Ahead(std::int64_t shares) : wanted_(shares) {}

  bool operator()(std::int64_t worker, WorkerOperation operation) {
    if (operation != WorkerOperation::kSetState && operation != WorkerOperation::kComputeGradient) {
      return false;
    }
    std::unique_lock lock(mutex_);
    if (worker == 0 && operation == WorkerOperation::kComputeGradient) {
      ++computed_;  // twice a share: computing, and fetching
      changed_.notify_all();
    }
    if (worker == 1) {
      changed_.wait_for(lock, std::chrono::seconds(1), [&] { return computed_ >= 2 * wanted_; });
    }
    return false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t wanted_;
  std::int64_t computed_ = 0;
};

TEST(ParameterServerFit, AFastWorkerRunsAheadByTheStalenessAndNotFurther) {
  for (const std::int64_t staleness : {0, 2}) {
    const Problem problem;
    Ahead ahead(staleness + 1);
    const auto context = strategies::workers(2, {.lose = std::ref(ahead)});
    const StrategyResult result = must_fit(
        *context, data_parallel(2, ParameterServer{.max_staleness = staleness}), problem.task);
    EXPECT_EQ(result.report.at("max_staleness_seen"), staleness);
    EXPECT_EQ(result.steps, 15);
  }
}

TEST(ParameterServerFit, BoundedStalenessStillLearns) {
  const Problem problem;
  const auto context = strategies::workers(3);
  const StrategyResult result =
      must_fit(*context, data_parallel(3, ParameterServer{.max_staleness = 3}), problem.task);
  EXPECT_TRUE(result.complete);
  EXPECT_LE(result.report.at("max_staleness_seen"), 3);
  EXPECT_EQ(result.epochs.size(), 3U);
  EXPECT_EQ(result.epochs.back().examples, 43);
  EXPECT_LT(result.epochs.back().loss, result.epochs.front().loss);
}

TEST(ParameterServerFit, MovesTheModelToEachWorkerAndBackEveryStep) {
  const Problem problem;
  const auto context = strategies::workers(2);
  const StrategyResult result =
      must_fit(*context, data_parallel(2, ParameterServer{}), problem.task);
  const std::uint64_t model = strategies::model_bytes(problem.start);
  EXPECT_EQ(result.bytes_moved, 2 * model + 15 * 2 * (model + model));
}

}  // namespace
}  // namespace muster
