#include <cmath>
#include <cstddef>

#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// y = 1 / (1 + exp(-x)), written so that exp never overflows; dx = dy y (1 - y).
class Sigmoid final : public Op {
 public:
  explicit Sigmoid(const Shape& shape) : Op({.output = shape}) {}

  void forward(const Forward& io) const override {
    const float* x = io.inputs[0].data();
    float* y = io.output.data();
    for (std::size_t i = 0; i < io.output.size(); ++i) {
      const float e = std::exp(-std::abs(x[i]));
      y[i] = (x[i] >= 0.0F ? 1.0F : e) / (1.0F + e);
    }
  }

  void backward(const Backward& io) const override {
    float* dx = io.dinputs[0].data();
    const float* dy = io.doutput.data();
    const float* y = io.output.data();
    for (std::size_t i = 0; i < io.dinputs[0].size(); ++i) dx[i] = dy[i] * y[i] * (1.0F - y[i]);
  }
};

}  // namespace

Created create_sigmoid(JsonObject&, std::span<const Shape> inputs) {
  return std::make_unique<Sigmoid>(inputs[0]);
}

}  // namespace muster::ops
