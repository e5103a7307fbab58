#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// y = exp(x) / sum of exp(x) over the last dimension, without overflow; dx = y (dy - sum(y dy)).
// A loss of kind softmax_cross_entropy wants what comes before this.
class Softmax final : public Op {
 public:
  Softmax(const Shape& shape, std::int64_t rows)
      : Op({.output = shape}), rows_(rows), width_(shape.back()) {}

  void forward(const Forward& io) const override {
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      kernels::best().softmax(end - begin, width_, io.inputs[0].data() + begin * width_,
                              io.output.data() + begin * width_);
    };
    io.workers.for_each(io.batch * rows_, grain_of(width_, kDearPart), body);
  }

  void backward(const Backward& io) const override {
    if (io.dinputs[0].empty()) return;
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      const std::int64_t at = begin * width_;
      kernels::best().softmax_gradient(end - begin, width_, io.output.data() + at,
                                       io.doutput.data() + at, io.dinputs[0].data() + at);
    };
    io.workers.for_each(io.batch * rows_, grain_of(width_, kCheapPart), body);
  }

 private:
  std::int64_t rows_;  // of one example
  std::int64_t width_;
};

}  // namespace

Created create_softmax(JsonObject&, std::span<const Shape> inputs) {
  const Shape& input = inputs[0];
  if (input.empty()) {
    return Error{ErrorCode::kInvalidArgument, "softmax wants at least one dimension, got []"};
  }
  MUSTER_TRY(const std::int64_t size, element_count(input));
  return std::make_unique<Softmax>(input, size / input.back());
}

}  // namespace muster::ops
