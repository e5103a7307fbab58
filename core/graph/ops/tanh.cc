#include <cmath>
#include <cstddef>

#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// y = tanh(x), dx = dy (1 - y^2).
class Tanh final : public Op {
 public:
  explicit Tanh(const Shape& shape) : Op({.output = shape}) {}

  void forward(const Forward& io) const override {
    const float* x = io.inputs[0].data();
    float* y = io.output.data();
    for (std::size_t i = 0; i < io.output.size(); ++i) {
      y[i] = std::tanh(x[i]);
    }
  }

  void backward(const Backward& io) const override {
    float* dx = io.dinputs[0].data();
    const float* dy = io.doutput.data();
    const float* y = io.output.data();
    for (std::size_t i = 0; i < io.dinputs[0].size(); ++i) dx[i] = dy[i] * (1.0F - y[i] * y[i]);
  }
};

}  // namespace

Created create_tanh(JsonObject&, std::span<const Shape> inputs) {
  return std::make_unique<Tanh>(inputs[0]);
}

}  // namespace muster::ops
