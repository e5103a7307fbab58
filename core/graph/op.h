#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/invariant.h"
#include "core/base/json.h"
#include "core/base/workers.h"
#include "core/tensor/state.h"

namespace muster {

// How a parameter begins.
struct Initializer {
  enum class Kind { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  double value = 0;  // the constant; uniform in [-value, value); standard deviation around 0
};

// One parameter of a node; its tensor is called "<node>.<name>".
struct ParameterSpec {
  std::string name;  // "weight", as PyTorch calls it
  Shape shape = {};
  Initializer init = {};
  // False for values that training carries along but no gradient moves (running statistics). The
  // op gives their next values in Forward::next_values.
  bool trained = true;
};

// What a node looks like from outside, fixed when the graph is built. Shapes are without the batch
// dimension. Sizes count floats.
struct OpPlan {
  Shape output = {};
  std::vector<ParameterSpec> parameters = {};
  // Kept from forward to backward: statistics, masks. `per_example` times the batch, plus `fixed`.
  std::int64_t saved_per_example = 0;
  std::int64_t saved_fixed = 0;
  // Work space for the length of one call, shared by all nodes.
  std::int64_t scratch_per_example = 0;
  std::int64_t scratch_fixed = 0;
  // The same for each worker, for loops that workers share out.
  std::int64_t scratch_per_worker = 0;
};

// The threads that share out an op's loops, each with its own work space of
// OpPlan::scratch_per_worker floats.
struct WorkerScratch {
  Workers* workers = nullptr;
  float* scratch = nullptr;
  std::int64_t size = 0;  // floats a worker

  // The work space of one worker, which is to write `floats` of it: no more than were planned.
  float* of(int worker, std::int64_t floats) const {
    if (floats > size) invariant_broken("an op uses more of a worker's scratch than it planned");
    return scratch + worker * size;
  }
  int count() const { return workers->count(); }
  // See Workers::for_each.
  template <typename Body>
  void for_each(std::int64_t n, std::int64_t grain, const Body& body) const {
    workers->for_each(n, grain, body);
  }
};

// One kind of node with its attributes, for given input shapes.
//
// Made while a graph is built, owned by the graph, immutable: `forward` and `backward` may be
// called from any thread on different buffers. They allocate nothing, and their results depend on
// the values only, not on where buffers lie or how many workers share the loops. Arrays are
// row-major, the batch is the first dimension.
class Op {
 public:
  struct Forward {
    std::int64_t batch = 0;
    bool training = false;
    std::uint64_t seed = 0;  // of this node in this run, for ops that draw
    std::span<const std::span<const float>> inputs;
    std::span<const std::span<const float>> parameters;  // in the order of the plan
    std::span<float> output;                             // written
    std::span<float> saved;                              // written, for backward
    std::span<float> scratch;
    WorkerScratch workers;
    std::span<const std::span<float>> next_values;  // by parameter; empty where trained
  };

  struct Backward {
    std::int64_t batch = 0;
    bool training = false;
    // True: gradients of parameters are added to what is there. False: they are written.
    bool accumulate = false;
    std::span<const std::span<const float>> inputs;
    std::span<const std::span<const float>> parameters;
    std::span<const float> output;
    std::span<const float> saved;
    std::span<float> scratch;
    WorkerScratch workers;
    std::span<const float> doutput;
    std::span<const std::span<float>> dinputs;      // written; empty where nobody needs it
    std::span<const std::span<float>> dparameters;  // by parameter; empty where not trained
  };

  virtual ~Op() = default;

  const OpPlan& plan() const { return plan_; }

  // All attributes with defaults written out; `create` of the same kind reads them back.
  virtual Json attributes() const { return Json::object(); }

  // The weighty part of forward's cost for one example, for tables.
  virtual std::int64_t multiply_adds() const { return 0; }

  virtual void forward(const Forward& io) const = 0;
  virtual void backward(const Backward& io) const = 0;

 protected:
  explicit Op(OpPlan plan) : plan_(std::move(plan)) {}

 private:
  OpPlan plan_;
};

// One line of the table of ops.
struct OpKind {
  std::string_view name;
  int min_inputs = 1;
  int max_inputs = 1;
  // Reads the attributes it knows (the caller refuses the rest) and infers shapes; dimensions of
  // inputs are >= 1. Takes no memory that grows with the shapes.
  // Errors: kInvalidArgument saying what it got and what it wanted; the caller names the node.
  Result<std::unique_ptr<Op>> (*create)(JsonObject& attributes, std::span<const Shape> inputs);
};

}  // namespace muster
