#include <algorithm>
#include <cstddef>

#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// The sum of its inputs, all of one shape, added from left to right.
class Add final : public Op {
 public:
  explicit Add(const Shape& shape) : Op({.output = shape}) {}

  void forward(const Forward& io) const override {
    std::copy(io.inputs[0].begin(), io.inputs[0].end(), io.output.begin());
    float* y = io.output.data();
    for (std::size_t k = 1; k < io.inputs.size(); ++k) {
      const float* x = io.inputs[k].data();
      for (std::size_t i = 0; i < io.output.size(); ++i) y[i] += x[i];
    }
  }

  void backward(const Backward& io) const override {
    for (const std::span<float>& dx : io.dinputs) {
      if (!dx.empty()) std::copy(io.doutput.begin(), io.doutput.end(), dx.begin());
    }
  }
};

}  // namespace

Created create_add(JsonObject&, std::span<const Shape> inputs) {
  for (const Shape& shape : inputs) {
    if (shape != inputs[0]) {
      return Error{ErrorCode::kInvalidArgument, "add wants inputs of one shape, got " +
                                                    to_string(inputs[0]) + " and " +
                                                    to_string(shape)};
    }
  }
  return std::make_unique<Add>(inputs[0]);
}

}  // namespace muster::ops
