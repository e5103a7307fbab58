#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/workers.h"
#include "core/graph/graph.h"
#include "core/graph/graph_run.h"
#include "core/tensor/state.h"
#include "core/train/settings.h"
#include "core/train/trained_weights.h"

namespace muster {

// Activations, or derivatives by them, of some tensors for one micro-batch: [batch, ...] each.
using Tensors = std::vector<std::vector<float>>;

struct PartitionOptions {
  std::vector<std::string> nodes;    // at least one, in any order
  std::int64_t max_micro_batch = 1;  // examples
  // Micro-batches that are forward and not yet backward at the same time; each has a work space.
  std::int64_t max_in_flight = 1;
  Workers* workers = nullptr;
  std::uint64_t limit_bytes = std::uint64_t{1} << 34;  // for all work spaces
};

// Some nodes of a model in training, with the parameters of those nodes: one partition of model
// parallelism. For each micro-batch `forward`, later `backward`; activations are kept between the
// two, gradients of the micro-batches of a step add up in the order of the backwards; then `apply`.
//
// The graph and the start state belong to the caller and stay where they are. One thread at a time.
// An error leaves weights, gradient and other micro-batches as they were.
class PartitionReplica {
 public:
  //   start  the whole graph's layout; the partition copies its part
  // Errors: kInvalidArgument (unknown node, no node, a size under 1, another layout);
  // kResourceExhausted.
  static Result<PartitionReplica> create(const Graph& graph, const StateDict& start,
                                         const LocalSettings& settings, PartitionOptions options);

  // What enters, and what leaves: GraphRun's, in its order. "input" is the graph's input.
  const std::vector<std::string>& inputs() const;
  const std::vector<std::string>& outputs() const;

  // Computes forward in training mode and keeps what backward needs.
  //   id      of the micro-batch in this step
  //   batch   its examples, 1 to max_micro_batch
  //   inputs  in the order of inputs(); kept until backward
  //   seed    fixes what ops draw
  // Gives the activations in the order of outputs(). Errors: kInvalidArgument (a size; the id is in
  // flight); kFailedPrecondition, reason "in_flight", when max_in_flight are; reason "non_finite",
  // naming the first node.
  Result<Tensors> forward(std::int64_t id, std::int64_t batch, Tensors inputs, std::uint64_t seed);

  // From the derivatives of the loss by outputs() to those by inputs(), in their order; empty for
  // the graph's own input, which nobody needs. Adds the gradient of the parameters. Moves
  // parameters that no gradient moves. The micro-batch's activations are free after it.
  // Errors: kInvalidArgument (an id that is not in flight; a size).
  Result<Tensors> backward(std::int64_t id, Tensors doutputs);

  // Forgets micro-batches in flight and the gradient: the step begins anew.
  void abandon();

  // Whether a step can be taken. Errors: kFailedPrecondition when micro-batches are in flight, or
  // none was computed.
  Status check_ready() const;
  // One optimiser step with the gradients of all micro-batches since the last one; see
  // TrainedWeights::step. Errors besides: check_ready's.
  Status apply(StepNumber at, std::optional<double> clip = std::nullopt);
  // For clipping by the norm over all partitions: the root of the sum of the squares of these.
  double gradient_norm() const { return weights_->gradient_norm(); }

  // The partition's parameters.
  const StateDict& state() const { return weights_->w(); }
  StateDict& state() { return weights_->w(); }

 private:
  struct Flight {
    GraphRun run;
    std::int64_t batch = 0;
    Tensors inputs;
    std::uint64_t seed = 0;
  };

  PartitionReplica() = default;
  Status check_sizes(const std::vector<std::string>& names, std::int64_t batch,
                     const Tensors& tensors, const char* what) const;

  const Graph* graph_ = nullptr;
  PartitionOptions options_;
  // Behind pointers, so that what refers to them stays valid when this moves.
  std::unique_ptr<StateDict> start_;
  std::unique_ptr<TrainedWeights> weights_;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
  std::vector<GraphRun> free_;
  std::map<std::int64_t, Flight> in_flight_;
  bool has_gradient_ = false;
};

}  // namespace muster
