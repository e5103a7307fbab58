#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/strategy/context/strategy_context.h"
#include "core/strategy/description/model_parallel.h"

namespace muster {

// Where nodes run: a worker's number, or kCoordinator.
inline constexpr std::int64_t kCoordinator = -1;

// Nodes that run one after another in one place.
struct Stage {
  std::int64_t place = kCoordinator;
  std::int64_t index = 0;  // among the stages of its place
  std::vector<std::string> nodes;
};

// The place of each node of the graph, in its order. Partitions with one worker share it.
// Errors: kInvalidArgument, reason "bad_strategy": a node that two partitions claim, or one twice;
// a node that the model has not; kNotFound for a target that no worker answers to. All name the
// partition and what it asks for.
Result<std::vector<std::int64_t>> places_of_nodes(const Graph& graph, const ModelParallel& strategy,
                                                  const StrategyContext& context);

// Cuts each place's nodes into stages such that every stage can run in one go: what a node needs is
// of its own stage or of an earlier one. A node's level is the most often that a way to it, from
// the graph's input, changes its place; nodes of one place and level are a stage, and stages come
// in order of levels. So a cut into contiguous pieces gives a stage a partition, and A -> B -> A
// three. The graph's output is in the last stage.
std::vector<Stage> stages_of(const Graph& graph, std::span<const std::int64_t> places);

// A tensor that goes from stage to stage.
struct BoundaryTensor {
  std::string name;            // of the node that makes it; "input"
  std::int64_t producer = -1;  // a stage; -1: the graph's input, which is at the coordinator
  // Stages, rising; the number of stages stands for the loss, at the coordinator.
  std::vector<std::int64_t> consumers = {};
};

// How stages hang together. Places are indices into `tensors`, in the order of the stages' ends.
struct Wiring {
  std::vector<BoundaryTensor> tensors;
  std::vector<std::vector<std::size_t>> inputs;   // by stage
  std::vector<std::vector<std::size_t>> outputs;  // by stage
  std::size_t output = 0;                         // the graph's

  std::int64_t loss() const { return static_cast<std::int64_t>(inputs.size()); }
};

// `ends` are those of the stages. Errors: kInternal when they are not of such stages.
Result<Wiring> wire(const Graph& graph, std::span<const PartitionEnds> ends);

}  // namespace muster
