#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// y = 1 / (1 + exp(-x)), without overflow; dx = dy y (1 - y).
class Sigmoid final : public Op {
 public:
  explicit Sigmoid(const Shape& shape) : Op({.output = shape}) {}

  void forward(const Forward& io) const override {
    const float* x = io.inputs[0].data();
    float* y = io.output.data();
    for_each_float(io.workers, io.output.size(), kDearPart,
                   [&](std::int64_t at, std::int64_t count) {
                     kernels::best().sigmoid(count, x + at, y + at);
                   });
  }

  void backward(const Backward& io) const override {
    const float* y = io.output.data();
    const float* dy = io.doutput.data();
    float* dx = io.dinputs[0].data();
    for_each_float(io.workers, io.dinputs[0].size(), kCheapPart,
                   [&](std::int64_t at, std::int64_t count) {
                     kernels::best().sigmoid_gradient(count, y + at, dy + at, dx + at);
                   });
  }
};

}  // namespace

Created create_sigmoid(JsonObject&, std::span<const Shape> inputs) {
  return std::make_unique<Sigmoid>(inputs[0]);
}

}  // namespace muster::ops
