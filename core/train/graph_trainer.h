#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "core/graph/graph.h"
#include "core/train/data/dataset.h"
#include "core/train/local_trainer.h"
#include "core/train/training_run.h"

namespace muster {

struct GraphTrainerOptions {
  SteadyClock clock = std::chrono::steady_clock::now;
  // Threads that share out the work, alive as long as the trainer; null: the caller's alone. The
  // results have the same bits with any number of them.
  Workers* workers = nullptr;
  bool holdout_each_epoch = false;  // evaluate the held-out examples after each epoch of a fit
};

// Muster's own trainer: builds the graph that a task's model describes (its resolved form,
// core/graph/model.h) and trains it on data held in memory. A fit is a TrainingRun from its first
// step to its last; training_run.h says what its bits depend on. The state of the optimiser and the
// schedule begin fresh in each fit. Progress is reported about a hundred times in a fit and at its
// end.
class GraphTrainer final : public LocalTrainer {
 public:
  explicit GraphTrainer(LocalData data, GraphTrainerOptions options = {});
  ~GraphTrainer() override;

  std::int64_t num_examples() const override { return data_.train.size(); }
  bool takes_gradient_offset() const override { return true; }

  // Ends early where the settings' max_seconds or the task's budget ends, with the partial work and
  // `complete` false; the time is looked at after each step. The budget counts from this call,
  // max_seconds, as in every TrainingRun, from when the run is ready to step.
  // Besides LocalTrainer's errors: those of TrainingRun, so kDeadlineExceeded, reason "no_time",
  // when there was no time for a single step. Metrics: "loss" and, where the loss knows right from
  // wrong, "accuracy", both over the last epoch's batches as they were met in training; where the
  // task asks for it "initial_loss", which takes a pass over the data.
  Result<FitResult> fit(const StateDict& global, const FitTask& task, std::stop_token stop,
                        const std::function<void(const FitProgress&)>& progress) override;

  // Metrics: "loss", "accuracy".
  Result<EvaluateResult> evaluate(const StateDict& global, const FitTask& task,
                                  std::stop_token stop) override;

 private:
  // A graph and the model it was built from: tasks of one job bring the same model again and again.
  struct Built {
    Json model;
    Graph graph;
  };
  Result<const Graph*> graph_for(const Json& model);

  LocalData data_;
  GraphTrainerOptions options_;
  std::unique_ptr<Built> built_;
};

}  // namespace muster
