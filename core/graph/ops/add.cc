#include <cstddef>

#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// The sum of its inputs, all of one shape, added from left to right.
class Add final : public Op {
 public:
  explicit Add(const Shape& shape) : Op({.output = shape}) {}

  void forward(const Forward& io) const override {
    for_each_float(
        io.workers, io.output.size(), kCheapPart, [&](std::int64_t at, std::int64_t count) {
          float* y = io.output.data() + at;
          kernels::best().add_pair(count, io.inputs[0].data() + at, io.inputs[1].data() + at, y);
          for (std::size_t k = 2; k < io.inputs.size(); ++k) {
            kernels::best().add(count, io.inputs[k].data() + at, y);
          }
        });
  }

  void backward(const Backward& io) const override {
    for (const std::span<float>& dx : io.dinputs) copy_floats(io.workers, io.doutput, dx);
  }
};

}  // namespace

Created create_add(JsonObject&, std::span<const Shape> inputs) {
  MUSTER_TRY_STATUS(check_one_shape("add", inputs));
  return std::make_unique<Add>(inputs[0]);
}

}  // namespace muster::ops
