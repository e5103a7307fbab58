#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/workers.h"
#include "core/graph/graph.h"
#include "core/tensor/state.h"

namespace muster {

struct GraphRunOptions {
  std::int64_t max_batch = 1;
  bool backward = true;          // false: no memory for gradients, `backward` may not be called
  bool input_gradients = false;  // also differentiate by what enters from outside
  // The nodes to run, in any order; empty: all of them.
  std::vector<std::string> nodes = {};
  std::uint64_t limit_bytes = std::uint64_t{1} << 34;  // for the workspace
  // Threads that share out the work, alive as long as the run; null: the caller's alone. The
  // results have the same bits with any number of them.
  Workers* workers = nullptr;
};

// The work space to compute a graph, or some of its nodes, forward and backward for up to
// `max_batch` examples. All its memory is taken by `create`; running allocates nothing.
//
// What enters are the activations of `inputs()`: the graph's input, or outputs of nodes that are
// not among those run. What leaves are those of `outputs()`: the graph's output, or what nodes
// outside use. For a whole graph that is one each, and the short forms of `run` and `backward`
// serve. Order of calls: create; then, any number of times, run and after it at most one backward.
// One thread at a time. States and gradients have the layout `layout()`. Breaking a precondition
// stops the process. `graph` must stay where it is for as long as this lives.
class GraphRun {
 public:
  // Errors: kInvalidArgument (unknown node, max_batch < 1); kResourceExhausted (over limit_bytes).
  static Result<GraphRun> create(const Graph& graph, const GraphRunOptions& options);

  // The bytes that `create` would take for its work space, without taking them or asking for the
  // limit. Errors: kInvalidArgument as there.
  static Result<std::uint64_t> measure(const Graph& graph, const GraphRunOptions& options);
  GraphRun(GraphRun&&) noexcept;
  GraphRun& operator=(GraphRun&&) noexcept;
  ~GraphRun();

  const std::vector<std::string>& inputs() const;
  const std::vector<std::string>& outputs() const;
  // Of the parameters of the nodes run: the graph's own layout when that is all nodes.
  const LayoutPtr& layout() const;
  std::uint64_t workspace_bytes() const;

  struct Mode {
    bool training = false;
    std::uint64_t seed = 0;  // fixes what ops draw in training
  };

  // Computes forward. `x` is [batch, ...] for each of `inputs()`; it and `state` must stay as they
  // are until `backward` is done. The result is valid until the next run.
  std::span<const float> run(const StateDict& state, std::span<const float> x, std::int64_t batch,
                             const Mode& mode);
  void run(const StateDict& state, std::span<const std::span<const float>> x, std::int64_t batch,
           const Mode& mode);

  // The output of a node in the last run, [batch, ...].
  std::span<const float> activation(std::string_view node) const;

  // From the derivative of the loss by each of `outputs()` to that by the parameters, which is
  // written to `gradient` (added to it when `accumulate`; parameters that are not trained are left
  // alone).
  void backward(std::span<const float> doutput, StateDict& gradient, bool accumulate = false);
  void backward(std::span<const std::span<const float>> doutputs, StateDict& gradient,
                bool accumulate = false);

  // By one of `inputs()`, after backward; only with the option `input_gradients`.
  std::span<const float> input_gradient(std::string_view input) const;

  // Copies what the last training run left for parameters that no gradient moves into `state`.
  void update_untrained(StateDict& state) const;

  // The first node, in order of computation, whose output in the last run has a NaN or infinity; ""
  // when none.
  std::string_view first_non_finite() const;

 private:
  struct Parts;
  explicit GraphRun(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster
