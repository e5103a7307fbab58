#include <benchmark/benchmark.h>

#include <numeric>
#include <vector>

#include "core/base/random.h"
#include "core/graph/graph_run.h"
#include "core/graph/model.h"
#include "core/train/graph_trainer.h"

// Training examples a second through GraphTrainer (batch loading, forward, backward and SGD step)
// on one thread, on generated images of 28 x 28 bytes.
namespace muster {
namespace {

LocalData make_images(std::int64_t count) {
  DatasetRows rows;
  rows.shape = {28, 28};
  Random random(1);
  for (std::int64_t i = 0; i < count * 784; ++i) {
    rows.bytes.push_back(static_cast<std::uint8_t>(random.below(256)));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    rows.labels.push_back(static_cast<std::int32_t>(random.below(10)));
  }
  return {.train = *Dataset::create(std::move(rows)), .holdout = {}};
}

void train(benchmark::State& state, const char* preset) {
  constexpr std::int64_t kExamples = 6000;
  GraphTrainer trainer(make_images(kExamples));
  FitTask task;
  task.model = *resolve_model({{"preset", preset}});
  task.local.batch_size = state.range(0);
  task.local.optimizer.lr = 0.01;
  const Graph graph = *graph_from_model(task.model);
  const StateDict global = graph.initial_state(1);
  for (auto _ : state) {
    auto result = trainer.fit(global, task, {}, {});
    if (!result) state.SkipWithError(result.error().message.c_str());
    benchmark::DoNotOptimize(result);
  }
  state.SetItemsProcessed(state.iterations() * kExamples);
}

BENCHMARK_CAPTURE(train, logistic, "logistic")->Arg(10)->Arg(32)->Arg(64)->Arg(256);
BENCHMARK_CAPTURE(train, two_nn, "2nn")->Arg(10)->Arg(32)->Arg(64)->Arg(256);

}  // namespace
}  // namespace muster

BENCHMARK_MAIN();
