#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "core/graph/graph.h"
#include "core/train/dataset.h"
#include "core/train/local_trainer.h"

namespace muster {

// Muster's own trainer: builds the graph that a task's model describes (its resolved form,
// core/graph/model.h) and trains it on data held in memory with SGD.
//
// The order of examples is derived from task.seed and the epoch, what ops draw from task.seed and
// the step. So equal tasks on equal data give equal bits on one kind of machine. The state of the
// optimiser begins fresh in each fit. Progress is reported about a hundred times in a fit and at
// its end.
class GraphTrainer final : public LocalTrainer {
 public:
  explicit GraphTrainer(LocalData data);
  ~GraphTrainer() override;

  std::int64_t num_examples() const override { return data_.train.size(); }

  // Besides LocalTrainer's errors: kFailedPrecondition, reason "no_data", without examples.
  // Metrics: "loss" and, where the loss knows right from wrong, "accuracy", both over the last
  // epoch's batches as they were met in training.
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
  std::unique_ptr<Built> built_;
};

}  // namespace muster
