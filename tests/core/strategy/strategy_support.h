#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "core/strategy/context/in_process_context.h"
#include "core/strategy/executors/fit.h"
#include "core/train/training_run.h"
#include "tests/core/train/training_support.h"

// A small problem for the tests of strategies.
namespace muster::strategies {

// Two dense layers: no statistics of batches and nothing drawn, so the gradients of shares add up
// to the batch's but for rounding.
inline Json plain_model(Json loss = {{"type", "softmax_cross_entropy"}}) {
  return training::model_with({{{"id", "fc1"}, {"op", "dense"}, {"units", 8}},
                               {{"id", "act"}, {"op", "tanh"}},
                               {{"id", "fc2"}, {"op", "dense"}, {"units", 2}}},
                              std::move(loss));
}

inline Json batch_norm_model() {
  return training::model_with({{{"id", "fc1"}, {"op", "dense"}, {"units", 8}},
                               {{"id", "norm"}, {"op", "batch_norm"}},
                               {{"id", "act"}, {"op", "relu"}},
                               {{"id", "fc2"}, {"op", "dense"}, {"units", 2}}});
}

// A task with the state it starts from.
struct Problem {
  explicit Problem(const Json& local = Json::object(), const Json& model = plain_model(),
                   std::int64_t rows = 43)
      : graph(*graph_from_model(*resolve_model(model))), start(graph.initial_state(1)) {
    Json settings{{"epochs", 3}, {"batch_size", 10}, {"optimizer", {{"lr", 0.1}}}};
    settings.update(local);
    const auto read = local_settings_from_json(settings, "local");
    EXPECT_TRUE(read) << read.error().message;
    task.model = *resolve_model(model);
    task.settings = *read;
    task.seed = 7;
    task.data = {.train = training::make_data(rows), .holdout = training::make_data(12, 2)};
    task.start = &start;
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  // What one TrainingRun makes of it.
  FitResult trained() const {
    auto run = TrainingRun::create(graph, task.data.train, start, task.settings, task.seed);
    EXPECT_TRUE(run) << run.error().message;
    while (!run->done()) {
      const Status stepped = run->step();
      EXPECT_TRUE(stepped) << stepped.error().message;
      if (!stepped) break;
    }
    auto result = std::move(*run).finish();
    EXPECT_TRUE(result) << result.error().message;
    return *std::move(result);
  }

  Graph graph;
  StateDict start;
  StrategyTask task;
};

inline std::unique_ptr<InProcessContext> workers(std::int64_t count,
                                                 InProcessOptions options = {}) {
  auto context = InProcessContext::create(count, std::move(options));
  EXPECT_TRUE(context) << context.error().message;
  return *std::move(context);
}

// max |a - b| / max |b|.
inline double relative_distance(const StateDict& a, const StateDict& b) {
  double most = 0;
  double size = 0;
  for (std::size_t i = 0; i < b.values().size(); ++i) {
    most = std::max(
        most, std::abs(static_cast<double>(a.values()[i]) - static_cast<double>(b.values()[i])));
    size = std::max(size, std::abs(static_cast<double>(b.values()[i])));
  }
  return most / size;
}

inline std::uint64_t model_bytes(const StateDict& state) {
  return state.values().size_bytes();
}

inline DataParallel data_parallel(std::int64_t replicas,
                                  decltype(DataParallel::aggregation) how = AllReduce{}) {
  return {.num_replicas = replicas, .min_replicas = replicas, .aggregation = how};
}

inline StrategyResult must_fit(StrategyContext& context, const TrainingStrategy& strategy,
                               const StrategyTask& task, const StrategyObserver& observer = {}) {
  auto result = fit(context, strategy, task, observer);
  EXPECT_TRUE(result) << result.error().message;
  if (!result) return {.state = task.start->clone(), .metrics = {}};
  return *std::move(result);
}

}  // namespace muster::strategies
