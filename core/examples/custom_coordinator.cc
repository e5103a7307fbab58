// A training strategy of your own: "relay" sends one model from worker to worker, each of which
// trains on a share of the rows, and goes around "laps" times.
//   core-example-custom-coordinator [LAPS]
#include <cstdio>
#include <cstdlib>

#include "core/base/random.h"
#include "core/graph/model.h"
#include "core/strategy/context/in_process_context.h"
#include "core/strategy/custom/registry.h"
#include "core/train/evaluate.h"

using namespace muster;

// What a coordinator is: from the task's start, with the context's operations, to a trained state.
Result<StrategyResult> relay(StrategyContext& context, const Json& config, const StrategyTask& task,
                             const StrategyObserver& observer) {
  JsonObject fields(config, "config");
  const std::int64_t laps = fields.integer("laps", 1, {1, 1000});
  MUSTER_TRY_STATUS(fields.finish());
  StrategyResult result{.state = task.start->clone(), .metrics = {}};
  for (std::int64_t turn = 0; turn < laps * context.num_workers(); ++turn) {
    const std::int64_t worker = turn % context.num_workers();
    std::vector<std::int64_t> share;
    for (std::int64_t row = worker; row < task.data.train.size(); row += context.num_workers()) {
      share.push_back(row);
    }
    const TrainingPlan plan{.model = task.model,
                            .settings = task.settings,
                            .seed = task.seed + static_cast<std::uint64_t>(turn),
                            .data = {.train = task.data.train.subset(share), .holdout = {}}};
    MUSTER_TRY_STATUS(context.prepare(worker, plan, result.state));
    MUSTER_TRY(FitResult fitted, context.execute_on_worker(worker));
    result.state = std::move(fitted.state);
    result.metrics = std::move(fitted.metrics);
    result.steps += fitted.steps;
    if (observer.progress) observer.progress({.steps_done = result.steps});
  }
  return result;
}

Dataset two_clouds(std::int64_t rows) {
  Random random(1);
  DatasetRows data;
  data.shape = {2};
  for (std::int64_t i = 0; i < rows; ++i) {
    data.labels.push_back(static_cast<std::int32_t>(random.below(2)));
    for (int k = 0; k < 2; ++k) {
      data.floats.push_back(static_cast<float>(2 * data.labels.back() - 1 + random.normal() / 2));
    }
  }
  return *Dataset::create(std::move(data));
}

Result<double> train(std::int64_t laps) {
  CoordinatorRegistry coordinators;
  MUSTER_TRY_STATUS(coordinators.add("relay", relay));
  MUSTER_TRY(const TrainingStrategy strategy,
             strategy_from_json(
                 {{"type", "Custom"}, {"coordinator", "relay"}, {"config", {{"laps", laps}}}},
                 "strategy"));
  StrategyTask task;
  MUSTER_TRY(task.model,
             resolve_model({{"graph",
                             {{"input", {{"shape", {2}}}},
                              {"nodes", {{{"id", "fc"}, {"op", "dense"}, {"units", 2}}}},
                              {"loss", {{"type", "softmax_cross_entropy"}}}}}}));
  MUSTER_TRY(const Graph graph, graph_from_model(task.model));
  const StateDict start = graph.initial_state(1);
  task.start = &start;
  task.data.train = two_clouds(300);
  MUSTER_TRY(const auto context, InProcessContext::create(3));
  MUSTER_TRY(const StrategyResult result, fit(*context, strategy, task, {}, &coordinators));
  MUSTER_TRY(const EvaluateResult score, evaluate(graph, result.state, task.data.train));
  return score.metrics.at("accuracy");
}

int main(int argc, char** argv) {
  const Result<double> accuracy = train(argc > 1 ? std::atoll(argv[1]) : 3);
  if (!accuracy) {
    std::fprintf(stderr, "%s\n", accuracy.error().message.c_str());
    return 1;
  }
  std::printf("accuracy after the relay: %.3f\n", *accuracy);
  return 0;
}
