#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/workers.h"
#include "core/strategy/context/strategy_context.h"
#include "core/tensor/state.h"

namespace muster {

// What a worker does, whoever carries its calls: a thread of this process or a connection. The
// operations, their order and their errors are StrategyContext's, without the worker's name and
// what happens on the way.
//
// One thread at a time. `loops` outlives it.
class StrategyWorker {
 public:
  explicit StrategyWorker(Workers& loops);
  ~StrategyWorker();
  StrategyWorker(const StrategyWorker&) = delete;
  StrategyWorker& operator=(const StrategyWorker&) = delete;

  Status prepare(TrainingPlan plan, StateDict start);
  // `progress` is called after each step. Errors besides: kCancelled when `stop` was asked.
  Result<FitResult> execute(const std::stop_token& stop,
                            const std::function<Status(const FitProgress&)>& progress);
  Result<StateDict> fitted_state(std::span<const std::string> nodes) const;
  Result<StateDict> state(std::span<const std::string> nodes) const;
  Status set_state(const StateDict& state);

  Result<ShareFigures> compute_gradient(const BatchShare& share);
  // That was computed last. It may be changed before `apply`.
  Result<StateDict*> gradient();
  Status apply(StepNumber at);
  // For mixing; what fitted_state gives does not change with it.
  Result<StateDict*> mutable_state();
  Result<EvaluateResult> evaluate(const std::stop_token& stop);

  Result<PartitionEnds> prepare_partition(PartitionPlan plan, const StateDict& start);
  Result<PartitionReplica*> partition(std::int64_t stage = 0);
  Result<double> partition_gradient_norm() const;
  Status apply_partition(StepNumber at, std::optional<double> clip);

 private:
  struct Whole;
  struct Part;
  Result<Whole*> whole() const;
  Result<Replica*> replica();

  Workers* loops_;
  std::unique_ptr<Whole> whole_;
  std::unique_ptr<Part> part_;
};

// The parameters of some nodes, as a state of their own; no nodes: all. Errors: kInvalidArgument,
// reason "unknown_node".
Result<StateDict> state_of_nodes(const Graph& graph, const StateDict& state,
                                 std::span<const std::string> nodes);

}  // namespace muster
