#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/workers.h"
#include "core/graph/graph.h"
#include "core/tensor/state.h"
#include "core/train/data/dataset.h"
#include "core/train/training_run.h"

// What train_bench times and compare_torch.py sets beside PyTorch: models with data for them.
namespace muster::bench {

struct TrainCase {
  std::string_view name;
  Json (*model)();                         // a job's "model"
  Dataset (*data)(std::int64_t examples);  // generated, the same each time
  std::int64_t examples = 0;               // of a data set worth timing on
};

std::span<const TrainCase> train_cases();
// nullptr when there is none of that name.
const TrainCase* find_train_case(std::string_view name);

// A training that never ends, ready to be stepped: batches are loaded from a shuffled data set,
// then forward, backward and a step of plain SGD (lr 0.01).
class EndlessTraining {
 public:
  EndlessTraining(const TrainCase& chosen, std::int64_t batch, int threads);

  // Errors: as TrainingRun::step.
  Status step() { return run_->step(); }
  const Graph& graph() const { return graph_; }
  const Dataset& data() const { return data_; }
  const StateDict& start() const { return start_; }
  const StateDict& state() const { return run_->state(); }
  // Mean loss of the epoch so far.
  double loss() const { return run_->progress().loss; }

 private:
  Graph graph_;
  Dataset data_;
  StateDict start_;
  Workers workers_;
  std::unique_ptr<TrainingRun> run_;
};

// Takes one step on one batch and leaves in `folder` what another framework needs to do the same:
// start.safetensors and stepped.safetensors (the states before and after), batch.safetensors ("x"
// and "y" as float32, batch first). Returns {"model", "lr", "loss"}, the loss before the step.
Result<Json> write_one_step(const TrainCase& chosen, std::int64_t batch, const std::string& folder);

}  // namespace muster::bench
