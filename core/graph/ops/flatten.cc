#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// All dimensions of an example become one.
class Flatten final : public Op {
 public:
  explicit Flatten(std::int64_t size) : Op({.output = {size}}) {}

  void forward(const Forward& io) const override {
    copy_floats(io.workers, io.inputs[0], io.output);
  }

  void backward(const Backward& io) const override {
    copy_floats(io.workers, io.doutput, io.dinputs[0]);
  }
};

}  // namespace

Created create_flatten(JsonObject&, std::span<const Shape> inputs) {
  MUSTER_TRY(const std::int64_t size, element_count(inputs[0]));
  return std::make_unique<Flatten>(size);
}

}  // namespace muster::ops
