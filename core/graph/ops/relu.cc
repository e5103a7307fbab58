#include <cmath>
#include <cstddef>

#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// y = max(x, 0); the gradient at 0 is 0. A NaN passes through, so that the loss guard sees it.
class Relu final : public Op {
 public:
  explicit Relu(const Shape& shape) : Op({.output = shape}) {}

  void forward(const Forward& io) const override {
    const float* x = io.inputs[0].data();
    float* y = io.output.data();
    for (std::size_t i = 0; i < io.output.size(); ++i) {
      y[i] = x[i] <= 0.0F ? 0.0F : x[i];
    }
  }

  void backward(const Backward& io) const override {
    float* dx = io.dinputs[0].data();
    const float* dy = io.doutput.data();
    const float* y = io.output.data();
    for (std::size_t i = 0; i < io.dinputs[0].size(); ++i) dx[i] = y[i] > 0.0F ? dy[i] : 0.0F;
  }
};

}  // namespace

Created create_relu(JsonObject&, std::span<const Shape> inputs) {
  return std::make_unique<Relu>(inputs[0]);
}

}  // namespace muster::ops
