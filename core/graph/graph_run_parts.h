#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/aligned_floats.h"
#include "core/base/invariant.h"
#include "core/graph/arena.h"
#include "core/graph/graph_run.h"

// What a GraphRun is made of; for graph_run.cc and graph_run_build.cc only.
namespace muster {

inline void require(bool holds, std::string_view what) {
  if (!holds) invariant_broken(what);
}

// Tensors are numbered: 0 is the graph's input, i + 1 the output of node i.
struct GraphRun::Parts {
  struct Tensor {
    std::int64_t size = 0;  // floats for one example
    std::int64_t value_at = 0;
    std::int64_t gradient_at = 0;
    const float* value = nullptr;  // in the arena, or what the caller passed in
    float* gradient = nullptr;     // null when nobody needs it
    int users = 0;                 // among the nodes run
    bool written = false;          // the gradient, in this backward
  };

  struct NodeRun {
    const GraphNode* node = nullptr;
    std::size_t output = 0;  // tensor
    bool differentiate = false;
    std::vector<std::size_t> inputs;      // tensors
    std::vector<std::int64_t> offsets;    // of the parameters in the state
    std::vector<std::int64_t> sizes;      // of the parameters
    std::vector<std::int64_t> spares_at;  // by input: gradient to add to the tensor's; -1 when none
    std::vector<std::int64_t>
        next_at;  // by parameter: next value of an untrained one; -1 when trained
    std::int64_t saved_at = 0;
    // Refilled in each run without taking memory.
    std::vector<std::span<const float>> input_values;
    std::vector<std::span<const float>> parameters;
    std::vector<std::span<float>> next_values;
    std::vector<std::span<float>> dinputs;
    std::vector<std::span<float>> dparameters;
  };

  explicit Parts(const Graph& owner) : graph(owner) {}

  // Everything but the memory itself.
  static Result<std::unique_ptr<Parts>> plan(const Graph& graph, const GraphRunOptions& options);

  Status choose_nodes(const std::vector<std::string>& ids);
  void find_boundaries();
  Status make_layout();
  void find_differentiated(const GraphRunOptions& options);
  void plan_arena();
  Status take_arena(const GraphRunOptions& options);
  void place_gradients(ArenaPlan& plan);

  void forward(const StateDict& state, const Mode& mode);
  void backward(StateDict& gradient, bool accumulate);

  std::span<float> place(std::int64_t at, std::int64_t size) {
    return {arena.get() + at, static_cast<std::size_t>(size)};
  }
  std::string tensor_name(std::size_t tensor) const {
    return tensor == 0 ? "input" : graph.node(static_cast<int>(tensor) - 1).id;
  }
  WorkerScratch worker_scratches() {
    return {workers, arena.get() + worker_scratch_at, worker_scratch};
  }
  std::size_t floats(std::size_t tensor) const {
    return static_cast<std::size_t>(batch * tensors[tensor].size);
  }

  const Graph& graph;
  std::vector<Tensor> tensors;
  std::vector<NodeRun> runs;  // in order of computation
  std::vector<std::size_t> inputs;
  std::vector<std::size_t> outputs;
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  LayoutPtr layout;
  AlignedFloats arena;
  std::int64_t arena_floats = 0;
  std::int64_t scratch_at = 0;
  std::int64_t worker_scratch_at = 0;
  std::int64_t worker_scratch = 0;  // floats a worker
  Workers alone{1};
  Workers* workers = &alone;
  std::int64_t max_batch = 0;
  bool can_backward = false;
  std::int64_t batch = 0;  // of the last run
  Mode mode;
};

}  // namespace muster
