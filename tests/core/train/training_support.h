#pragma once

#include <cstdint>
#include <utility>

#include "core/base/json.h"
#include "core/base/random.h"
#include "core/graph/model.h"
#include "core/train/data/dataset.h"
#include "core/train/local_trainer.h"

// A small problem for the tests of training.
namespace muster::training {

// Two classes that a line parts, with some noise in the features.
inline Dataset make_data(std::int64_t count, std::uint64_t seed = 1) {
  Random random(seed);
  DatasetRows rows;
  rows.shape = {4};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::int32_t>(random.below(2));
    rows.labels.push_back(label);
    for (int k = 0; k < 4; ++k) {
      rows.floats.push_back(static_cast<float>((label == 0 ? -1 : 1) + 0.5 * random.normal()));
    }
  }
  return *Dataset::create(std::move(rows));
}

inline Json model_with(Json nodes, Json loss = {{"type", "softmax_cross_entropy"}}) {
  return {{"graph",
           {{"input", {{"shape", {4}}}}, {"nodes", std::move(nodes)}, {"loss", std::move(loss)}}}};
}

// Two dense layers with dropout between them.
inline Json small_model() {
  return model_with({{{"id", "fc1"}, {"op", "dense"}, {"units", 8}},
                     {{"id", "act"}, {"op", "relu"}},
                     {{"id", "drop"}, {"op", "dropout"}, {"p", 0.2}},
                     {{"id", "fc2"}, {"op", "dense"}, {"units", 2}}});
}

inline FitTask make_task() {
  FitTask task;
  task.model = small_model();
  task.local.epochs = 3;
  task.local.batch_size = 8;
  task.local.optimizer.lr = 0.1;
  task.seed = 5;
  return task;
}

inline StateDict start_of(const FitTask& task) {
  return graph_from_model(task.model)->initial_state(1);
}

}  // namespace muster::training
