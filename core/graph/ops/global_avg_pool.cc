#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// The mean over all positions of each channel: [C, ...] gives [C].
class GlobalAvgPool final : public Op {
 public:
  GlobalAvgPool(std::int64_t channels, std::int64_t positions)
      : Op({.output = {channels}}), channels_(channels), positions_(positions) {}

  void forward(const Forward& io) const override {
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      kernels::best().channel_means(end - begin, positions_,
                                    io.inputs[0].data() + begin * positions_,
                                    io.output.data() + begin);
    };
    io.workers.for_each(io.batch * channels_, grain_of(positions_, kCheapPart), body);
  }

  void backward(const Backward& io) const override {
    if (io.dinputs[0].empty()) return;
    const float count = static_cast<float>(positions_);
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t c = begin; c < end; ++c) {
        kernels::best().fill(positions_, io.doutput.data()[c] / count,
                             io.dinputs[0].data() + c * positions_);
      }
    };
    io.workers.for_each(io.batch * channels_, grain_of(positions_, kCheapPart), body);
  }

 private:
  std::int64_t channels_;
  std::int64_t positions_;
};

}  // namespace

Created create_global_avg_pool(JsonObject&, std::span<const Shape> inputs) {
  const Shape& input = inputs[0];
  if (input.size() < 2) {
    return Error{ErrorCode::kInvalidArgument,
                 "global_avg_pool wants an input [channels, ...] of at least two dimensions, got " +
                     to_string(input)};
  }
  MUSTER_TRY(const std::int64_t size, element_count(input));
  return std::make_unique<GlobalAvgPool>(input[0], size / input[0]);
}

}  // namespace muster::ops
