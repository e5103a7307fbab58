#include <algorithm>
#include <cstddef>

#include "core/base/random.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// In training each element is 0 with probability p, else scaled by 1 / (1 - p) (Srivastava et al.
// 2014, in the inverted form); in evaluation the identity. The mask is fixed by the run's seed.
class Dropout final : public Op {
 public:
  Dropout(const Shape& shape, std::int64_t size, double p)
      : Op({.output = shape, .saved_per_example = size}), p_(p) {}

  Json attributes() const override { return {{"p", p_}}; }

  void forward(const Forward& io) const override {
    const float* x = io.inputs[0].data();
    if (!io.training || p_ == 0) {
      std::copy(io.inputs[0].begin(), io.inputs[0].end(), io.output.begin());
      return;
    }
    Random random(io.seed);
    const float scale = static_cast<float>(1.0 / (1.0 - p_));
    for (std::size_t i = 0; i < io.output.size(); ++i) {
      const float factor = random.uniform() < p_ ? 0.0F : scale;
      io.saved[i] = factor;
      io.output[i] = x[i] * factor;
    }
  }

  void backward(const Backward& io) const override {
    float* dx = io.dinputs[0].data();
    if (!io.training || p_ == 0) {
      std::copy_n(io.doutput.begin(), io.dinputs[0].size(), dx);
      return;
    }
    for (std::size_t i = 0; i < io.dinputs[0].size(); ++i) dx[i] = io.doutput[i] * io.saved[i];
  }

 private:
  double p_;
};

}  // namespace

Created create_dropout(JsonObject& attributes, std::span<const Shape> inputs) {
  const double p = attributes.number("p", 0.5, {0.0, 0.999});
  MUSTER_TRY(const std::int64_t size, element_count(inputs[0]));
  return std::make_unique<Dropout>(inputs[0], size, p);
}

}  // namespace muster::ops
