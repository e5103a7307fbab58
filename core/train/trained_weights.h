#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/workers.h"
#include "core/graph/graph.h"
#include "core/tensor/state.h"
#include "core/train/optimizer/optimizer.h"
#include "core/train/settings.h"

namespace muster {

// Which optimiser step of how many: what a schedule looks at, and what errors say.
struct StepNumber {
  std::int64_t step = 0;  // 0 for the first
  std::int64_t total = 1;
};

// "step 3 of 10: "
std::string describe(const StepNumber& at);

struct TrainedWeightsOptions {
  Workers* workers = nullptr;  // share out the loops; null: the caller alone
  // Added to the gradient in every step, before the proximal term and clipping; null: nothing.
  const StateDict* gradient_offset = nullptr;
};

// The weights that a training moves, with their gradient, their optimiser and its moments: the half
// of a step that comes after the backward pass. A whole model's, or those of some of its nodes (a
// partition of model parallelism, whose layout has those nodes' parameters only).
//
// Owned by whoever trains. `graph`, `start` (where the proximal term pulls to) and what the options
// point to belong to the caller and stay where they are. One thread at a time. All memory is taken
// by the constructor; a step allocates nothing.
class TrainedWeights {
 public:
  // `start` has the graph's layout, or that of a GraphRun of some of its nodes.
  TrainedWeights(const Graph& graph, const StateDict& start, const LocalSettings& settings,
                 TrainedWeightsOptions options = {});

  StateDict& w() { return w_; }
  const StateDict& w() const { return w_; }
  // Written by whoever computes it, before each step.
  StateDict& gradient() { return gradient_; }
  const StateDict& gradient() const { return gradient_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  OptimizerState& optimizer_state() { return optimizer_state_; }
  const OptimizerState& optimizer_state() const { return optimizer_state_; }
  // The parts of the values that steps move, in floats.
  const std::vector<Graph::Range>& trained_ranges() const { return ranges_; }
  // What is left between them: parameters that training carries along but no gradient moves.
  const std::vector<Graph::Range>& untrained_ranges() const { return untrained_; }
  // Their values become what the gradient has in their place: for who puts the next values there.
  void take_untrained_from_gradient();

  // One optimiser step of w against the gradient: the offset, the proximal term, clipping, the
  // schedule's rate, the recipe.
  //   clip  what clipping multiplies the gradient with, where its norm is that of more than these
  //         weights (clip.h has clip_scale); nullopt: from the norm of this gradient alone
  // Errors: kFailedPrecondition, reason "non_finite", naming the step and where it began: the
  // parameter whose gradient was the first (in the order of the backward pass), else the weight or
  // moment. The weights are then of no further use.
  Status step(StepNumber at, std::optional<double> clip = std::nullopt);

  // Of the gradient with its proximal term, without the offset; see clip.h.
  double gradient_norm() const;

  // Errors: as step's, when the gradient has a NaN or infinity where weights are trained.
  Status check_gradient(StepNumber at) const;

 private:
  void add_gradient_offset();
  Error blew_up(StepNumber at) const;
  ProximalTerm proximal() const { return {.mu = settings_.mu, .global = start_}; }

  const Graph* graph_;
  const StateDict* start_;
  LocalSettings settings_;
  TrainedWeightsOptions options_;
  std::vector<Graph::Range> ranges_;
  std::vector<Graph::Range> untrained_;
  StateDict w_;
  StateDict gradient_;
  std::unique_ptr<const Optimizer> optimizer_;
  OptimizerState optimizer_state_;
};

}  // namespace muster
