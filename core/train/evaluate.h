#pragma once

#include <cstdint>
#include <span>
#include <stop_token>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/tensor/state.h"
#include "core/train/dataset.h"
#include "core/train/local_trainer.h"

namespace muster {

// Running figures over batches: the mean loss and, where the loss knows right from wrong, the
// accuracy.
class Tally {
 public:
  explicit Tally(const Loss& loss) : loss_(loss) {}

  // One batch; returns its loss, in the loss's own reduction. `gradient` as in Loss::compute.
  double add(std::span<const float> prediction, std::int64_t batch, const TargetView& target,
             std::span<float> gradient);

  // Begins again.
  void reset() {
    sum_ = 0;
    examples_ = 0;
    correct_ = 0;
  }

  std::int64_t examples() const { return examples_; }
  // For each example: the batches' means, weighted by their sizes, or the sum by the number of
  // examples.
  double mean_loss() const { return examples_ == 0 ? 0 : sum_ / static_cast<double>(examples_); }
  // "loss" and "accuracy"; empty without examples.
  Metrics metrics() const;

 private:
  const Loss& loss_;  // outlives this
  double sum_ = 0;
  std::int64_t examples_ = 0;
  std::int64_t correct_ = 0;
  bool has_accuracy_ = false;
};

// Mean loss and accuracy of a state on all examples; no metrics when there are none.
// Errors: kInvalidArgument when state, graph and data do not fit together; kCancelled.
Result<EvaluateResult> evaluate(const Graph& graph, const StateDict& state, const Dataset& data,
                                std::stop_token stop = {});

}  // namespace muster
