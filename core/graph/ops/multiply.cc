#include <algorithm>
#include <cstddef>

#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// The product of its inputs element by element, all of one shape, multiplied from left to right.
class Multiply final : public Op {
 public:
  explicit Multiply(const Shape& shape) : Op({.output = shape}) {}

  void forward(const Forward& io) const override {
    for_each_float(io.workers, io.output.size(), kCheapPart,
                   [&](std::int64_t at, std::int64_t count) {
                     float* y = io.output.data() + at;
                     std::copy_n(io.inputs[0].data() + at, count, y);
                     for (std::size_t k = 1; k < io.inputs.size(); ++k) {
                       kernels::best().multiply(count, io.inputs[k].data() + at, y);
                     }
                   });
  }

  // The output's gradient times the other inputs; dividing the product would fail at 0.
  void backward(const Backward& io) const override {
    for_each_float(io.workers, io.doutput.size(), kCheapPart,
                   [&](std::int64_t at, std::int64_t count) {
                     for (std::size_t k = 0; k < io.dinputs.size(); ++k) {
                       if (io.dinputs[k].empty()) continue;
                       float* dx = io.dinputs[k].data() + at;
                       std::copy_n(io.doutput.data() + at, count, dx);
                       for (std::size_t other = 0; other < io.inputs.size(); ++other) {
                         if (other != k)
                           kernels::best().multiply(count, io.inputs[other].data() + at, dx);
                       }
                     }
                   });
  }
};

}  // namespace

Created create_multiply(JsonObject&, std::span<const Shape> inputs) {
  MUSTER_TRY_STATUS(check_one_shape("multiply", inputs));
  return std::make_unique<Multiply>(inputs[0]);
}

}  // namespace muster::ops
