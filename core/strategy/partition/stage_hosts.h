#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/strategy/context/fan_out.h"
#include "core/strategy/context/strategy_context.h"
#include "core/strategy/executors/fit.h"
#include "core/strategy/partition/stages.h"
#include "core/train/partition_replica.h"

namespace muster {

// The stages of a model where they run: at workers of a context, or here at the coordinator.
//
// Calls of one stage come one after another; of different stages from different threads. Context,
// graph, task and stages belong to the caller and stay where they are. Errors are those of the
// context and of PartitionReplica, and begin with "worker <id>" or "coordinator".
class StageHosts {
 public:
  // Prepares all of them from the task's start.
  //   max_in_flight  by stage
  static Result<StageHosts> create(StrategyContext& context, const Graph& graph,
                                   const StrategyTask& task, std::span<const Stage> stages,
                                   std::int64_t max_micro_batch,
                                   std::span<const std::int64_t> max_in_flight);

  const std::vector<PartitionEnds>& ends() const { return ends_; }

  Result<Tensors> forward(std::size_t stage, std::int64_t micro_batch, std::int64_t batch,
                          Tensors inputs, std::uint64_t seed);
  Result<Tensors> backward(std::size_t stage, std::int64_t micro_batch, Tensors doutputs);

  // One optimiser step everywhere, at the same time; clipped by the norm over all of the model.
  Status apply(StepNumber at);

  // The whole model's state now, put together.
  Result<StateDict> state();

 private:
  StageHosts(StrategyContext& context, const StrategyTask& task, std::span<const Stage> stages,
             std::vector<std::int64_t> workers, FanOut fan_out);

  Status prepare(const Graph& graph, std::int64_t max_micro_batch,
                 std::span<const std::int64_t> max_in_flight);
  Result<PartitionEnds> prepare_here(const Graph& graph, std::size_t stage,
                                     PartitionOptions options);
  // What clipping multiplies gradients with; nothing when it is not wanted.
  Result<std::optional<double>> clip();

  StrategyContext* context_;
  const StrategyTask* task_;
  std::span<const Stage> stages_;
  std::vector<std::int64_t> workers_;  // that have stages, rising
  FanOut fan_out_;
  std::map<std::size_t, PartitionReplica> here_;  // by stage
  std::vector<PartitionEnds> ends_;
};

}  // namespace muster
