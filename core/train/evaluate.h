#pragma once

#include <cstdint>
#include <span>
#include <stop_token>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/tensor/state.h"
#include "core/train/dataset.h"
#include "core/train/local_trainer.h"
#include "core/train/metrics/metric_set.h"

namespace muster {

// Running figures over batches, cheap enough for every training step and free of allocation: the
// mean loss and, where the loss knows right from wrong, the accuracy.
class Tally {
 public:
  explicit Tally(const Loss& loss) : loss_(loss) {}

  // One batch; returns its loss, in the loss's own reduction. `gradient` as in Loss::compute.
  double add(std::span<const float> prediction, std::int64_t batch, const TargetView& target,
             std::span<float> gradient);

  // A part of a batch whose gradients add up; `whole` as in Loss::compute_part. Returns what the
  // part adds to the batch's loss.
  double add_part(std::span<const float> prediction, std::int64_t batch, const TargetView& target,
                  double whole, std::span<float> gradient);

  // Begins again.
  void reset() {
    sum_ = 0;
    weight_ = 0;
    examples_ = 0;
    correct_ = 0;
  }

  std::int64_t examples() const { return examples_; }
  // As one batch of everything would have it for a mean; for a sum that by the number of examples.
  double mean_loss() const { return weight_ > 0 ? sum_ / weight_ : sum_; }
  // "loss" and "accuracy"; empty without examples. Predictions that are not finite make both NaN or
  // infinite.
  Metrics metrics() const;

 private:
  const Loss& loss_;   // outlives this
  double sum_ = 0;     // of the loss's terms
  double weight_ = 0;  // what it is divided by
  std::int64_t examples_ = 0;
  std::int64_t correct_ = 0;
  bool has_accuracy_ = false;
};

// Mean loss and metrics of a state on all examples: `metrics`, of which nothing is added to, or
// those that default_metrics has for the graph's loss. Without examples there are none.
// Predictions that are not finite give metrics that are NaN, never an error.
// Errors: kInvalidArgument when state, graph, metrics and data do not fit together;
// kResourceExhausted when the metrics would take over 2 GiB; kCancelled.
Result<EvaluateResult> evaluate(const Graph& graph, const StateDict& state, const Dataset& data,
                                const MetricSet& metrics, std::stop_token stop = {});
Result<EvaluateResult> evaluate(const Graph& graph, const StateDict& state, const Dataset& data,
                                std::stop_token stop = {});

}  // namespace muster
