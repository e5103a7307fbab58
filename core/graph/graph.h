#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/graph/loss.h"
#include "core/graph/op.h"
#include "core/graph/ops/registry.h"
#include "core/tensor/state.h"

namespace muster {

// A node with its op, in a built graph.
struct GraphNode {
  static constexpr int kInput = -1;  // among `inputs`: the graph's own input

  std::string id;
  std::string op_name;
  std::vector<int> inputs;  // indices into Graph::nodes(), all lower than the node's own, or kInput
  std::int64_t size = 0;    // floats of its output for one example
  std::unique_ptr<const Op> op;

  const Shape& shape() const { return op->plan().output; }
};

struct GraphLimits {
  std::size_t nodes = 10'000;
  std::int64_t parameters = std::int64_t{1} << 31;   // of the whole graph
  std::int64_t node_floats = std::int64_t{1} << 31;  // one node's output for one example
};

// A model: a directed acyclic graph of named nodes with one input, one output and a loss.
//
//   {"input": {"shape": [28, 28]},
//    "nodes": [{"id": "flat", "op": "flatten", "inputs": ["input"]},
//              {"id": "fc1", "op": "dense", "units": 10}],
//    "output": "fc1", "loss": {"type": "softmax_cross_entropy"}}
//
// "inputs" left out is the node before ("input" for the first), "output" the last node. Shapes are
// without the batch dimension. Parameters are called "<id>.weight", "<id>.bias", with PyTorch's
// layouts. It holds no values: those are a StateDict of `layout()`. Immutable and movable; any
// thread may read it.
class Graph {
 public:
  // Reads and checks a whole graph before it takes memory for it; no parameter is allocated.
  // Errors: kInvalidArgument, reason "bad_field" (a field, an attribute) or "bad_graph" (a cycle,
  // an unknown or unused node, an id given twice, shapes that do not fit, a limit); the message
  // names the node.
  static Result<Graph> from_json(const Json& json, const std::string& where = "graph",
                                 std::span<const OpKind> kinds = builtin_ops(),
                                 const GraphLimits& limits = {});

  // The canonical form: nodes in order of computation, every default written out. Reads back to an
  // equal graph.
  Json to_json() const;

  const Shape& input_shape() const { return input_shape_; }
  std::int64_t input_size() const { return input_size_; }
  // In order of computation.
  const std::vector<GraphNode>& nodes() const { return nodes_; }
  int output() const { return output_; }
  const Shape& output_shape() const { return node(output_).shape(); }
  const Loss& loss() const { return *loss_; }
  const GraphNode& node(int index) const { return nodes_[static_cast<std::size_t>(index)]; }
  // kInput - 1 when there is none of that id.
  int find(std::string_view id) const;

  const LayoutPtr& layout() const { return layout_; }

  // The parts of a state's values that training moves, merged where they touch: all but the
  // parameters marked as not trained. Offsets and sizes in floats.
  struct Range {
    std::int64_t offset = 0;
    std::int64_t size = 0;
  };
  const std::vector<Range>& trained_ranges() const { return trained_ranges_; }

  // A fresh state. Each parameter has its own stream, derive_seed(seed, {"init", name}), so that it
  // does not depend on the rest of the graph.
  StateDict initial_state(std::uint64_t seed) const;

 private:
  friend class GraphReader;
  Graph() = default;

  Shape input_shape_;
  std::int64_t input_size_ = 0;
  std::vector<GraphNode> nodes_;
  int output_ = 0;
  std::unique_ptr<const Loss> loss_;
  LayoutPtr layout_;
  std::vector<Range> trained_ranges_;
};

// "fc1.weight"
std::string parameter_name(const GraphNode& node, const ParameterSpec& parameter);

}  // namespace muster
