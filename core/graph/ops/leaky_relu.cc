#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// y = x above 0, else negative_slope x; the gradient at 0 is the slope (as torch.nn.LeakyReLU).
//
//   "negative_slope": 0.01
class LeakyRelu final : public Op {
 public:
  LeakyRelu(const Shape& shape, double slope) : Op({.output = shape}), slope_(slope) {}

  Json attributes() const override { return {{"negative_slope", slope_}}; }

  void forward(const Forward& io) const override {
    const float* x = io.inputs[0].data();
    float* y = io.output.data();
    const auto slope = static_cast<float>(slope_);
    for_each_float(io.workers, io.output.size(), kCheapPart,
                   [&](std::int64_t at, std::int64_t count) {
                     kernels::best().leaky_relu(count, slope, x + at, y + at);
                   });
  }

  void backward(const Backward& io) const override {
    const float* x = io.inputs[0].data();
    const float* dy = io.doutput.data();
    float* dx = io.dinputs[0].data();
    const auto slope = static_cast<float>(slope_);
    for_each_float(io.workers, io.dinputs[0].size(), kCheapPart,
                   [&](std::int64_t at, std::int64_t count) {
                     kernels::best().leaky_relu_gradient(count, slope, x + at, dy + at, dx + at);
                   });
  }

 private:
  double slope_;
};

}  // namespace

Created create_leaky_relu(JsonObject& attributes, std::span<const Shape> inputs) {
  const double slope = attributes.number("negative_slope", 0.01, {-1e6, 1e6});
  return std::make_unique<LeakyRelu>(inputs[0], slope);
}

}  // namespace muster::ops
