#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// y = x P(X <= x) for a standard normal X (Hendrycks and Gimpel 2016), as torch.nn.GELU.
//
//   "approximate": "none" (by the error function) or "tanh" (their equation 2)
class Gelu final : public Op {
 public:
  Gelu(const Shape& shape, bool by_tanh) : Op({.output = shape}), by_tanh_(by_tanh) {}

  Json attributes() const override { return {{"approximate", by_tanh_ ? "tanh" : "none"}}; }

  void forward(const Forward& io) const override {
    const auto gelu = by_tanh_ ? kernels::best().gelu_tanh : kernels::best().gelu;
    const float* x = io.inputs[0].data();
    float* y = io.output.data();
    for_each_float(io.workers, io.output.size(), kDearPart,
                   [&](std::int64_t at, std::int64_t count) { gelu(count, x + at, y + at); });
  }

  void backward(const Backward& io) const override {
    const auto gradient =
        by_tanh_ ? kernels::best().gelu_tanh_gradient : kernels::best().gelu_gradient;
    const float* x = io.inputs[0].data();
    const float* dy = io.doutput.data();
    float* dx = io.dinputs[0].data();
    for_each_float(
        io.workers, io.dinputs[0].size(), kDearPart,
        [&](std::int64_t at, std::int64_t count) { gradient(count, x + at, dy + at, dx + at); });
  }

 private:
  bool by_tanh_;
};

}  // namespace

Created create_gelu(JsonObject& attributes, std::span<const Shape> inputs) {
  const bool given = attributes.find("approximate") != nullptr;
  const bool by_tanh = given && attributes.choice("approximate", {"none", "tanh"}) == "tanh";
  return std::make_unique<Gelu>(inputs[0], by_tanh);
}

}  // namespace muster::ops
