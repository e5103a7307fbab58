#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/workers.h"
#include "core/graph/graph.h"
#include "core/graph/graph_run.h"
#include "core/tensor/state.h"
#include "core/train/batch.h"
#include "core/train/data/dataset.h"
#include "core/train/settings.h"
#include "core/train/trained_weights.h"

namespace muster {

struct ReplicaOptions {
  Workers* workers = nullptr;                          // as in GraphRunOptions
  std::uint64_t limit_bytes = std::uint64_t{1} << 34;  // for the workspace
  // See TrainedWeightsOptions; the layout of the start state, all finite.
  const StateDict* gradient_offset = nullptr;
};

// What a replica's share of a batch came to.
struct ShareFigures {
  double loss = 0;        // what it adds to the batch's loss, in the loss's own reduction
  double normaliser = 0;  // of the whole batch, that `loss` and the gradient are made with
  std::int64_t examples = 0;
  std::optional<std::int64_t> correct = {};  // targets predicted right, where the loss knows
};

// One copy of a model in training: its graph, its weights with their optimiser, and the examples it
// can compute on. What TrainingRun steps, and what each worker of a data-parallel run holds.
//
// A step is `compute_gradient`, then `apply`. Between the two the gradient may be changed: summed
// with those of other replicas that computed other shares of the same batch.
//
// Graph, data, start state (where the proximal term pulls to) and what the options point to belong
// to the caller and stay where they are for as long as this lives. One thread at a time. All memory
// is taken by `create`; computing and applying allocate nothing.
class Replica {
 public:
  // Errors: kInvalidArgument when graph, data, start and offset do not fit together;
  // kFailedPrecondition, reason "no_data", without examples; kResourceExhausted when the workspace
  // is over the limit.
  static Result<Replica> create(const Graph& graph, const Dataset& data, const StateDict& start,
                                const LocalSettings& settings, ReplicaOptions options = {});

  struct Share {
    // In the data; at most settings.batch_size, and may be none, whose gradient is zero.
    std::span<const std::int64_t> positions;
    // Loss::normaliser of the whole batch's targets, so that the gradients of the shares, however
    // unequal, add up to the batch's; nullopt: the share is the batch.
    std::optional<double> normaliser = {};
    std::uint64_t seed = 0;  // fixes what ops draw
    StepNumber at = {};      // for errors
  };
  // Writes the share's part of the gradient of the batch's loss, computed in micro-batches of at
  // most settings.micro_batch() examples, and moves the parameters that no gradient moves.
  // Errors: kFailedPrecondition, reason "non_finite", when the loss is NaN or infinite, with the
  // step and the first node that is (or the weight, or that it is the data).
  Result<ShareFigures> compute_gradient(const Share& share);

  // See TrainedWeights::step.
  Status apply(StepNumber at) { return weights_.step(at); }

  TrainedWeights& weights() { return weights_; }
  const TrainedWeights& weights() const { return weights_; }
  const StateDict& state() const { return weights_.w(); }
  std::int64_t batch_size() const { return batch_size_; }  // of a full batch

 private:
  Replica(const Graph& graph, const Dataset& data, const StateDict& start,
          const LocalSettings& settings, const ReplicaOptions& options, GraphRun run);

  Error blew_up(double loss, StepNumber at) const;

  const Graph* graph_;
  const Dataset* data_;
  GraphRun run_;
  std::int64_t batch_size_;
  std::int64_t part_size_;  // of a full micro-batch
  Batch batch_;
  std::vector<float> doutput_;
  TrainedWeights weights_;
};

}  // namespace muster
