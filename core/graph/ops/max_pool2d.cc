#include "core/graph/op_support/loops.h"
#include "core/graph/op_support/pooling.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// The maximum of each window, as torch.nn.MaxPool2d: padding counts as minus infinity; of equal
// elements the first in row-major order has the gradient; a NaN is the maximum. Attributes:
// pooling.h.
class MaxPool2d final : public Op {
 public:
  MaxPool2d(OpPlan plan, const Pooling& pooling, bool marked)
      : Op(std::move(plan)), pooling_(pooling), marked_(marked) {}

  Json attributes() const override { return to_json(pooling_.window); }

  // saved: a byte for each output, the place of its maximum in the window.
  void forward(const Forward& io) const override {
    auto* marks = reinterpret_cast<std::uint8_t*>(io.saved.data());
    each_plane(io.workers, io.batch, [&](std::int64_t first, std::int64_t planes) {
      const std::int64_t at = first * pooling_.positions();
      kernels::best().max_pool(pooling_.pool, planes,
                               io.inputs[0].data() + first * pooling_.plane(),
                               io.output.data() + at, marked_ ? marks + at : nullptr);
    });
  }

  void backward(const Backward& io) const override {
    if (io.dinputs[0].empty()) return;
    const auto* marks = reinterpret_cast<const std::uint8_t*>(io.saved.data());
    each_plane(io.workers, io.batch, [&](std::int64_t first, std::int64_t planes) {
      const std::int64_t in = first * pooling_.plane();
      const std::int64_t at = first * pooling_.positions();
      kernels::best().max_pool_gradient(pooling_.pool, planes, io.inputs[0].data() + in,
                                        io.output.data() + at, marked_ ? marks + at : nullptr,
                                        io.doutput.data() + at, io.dinputs[0].data() + in);
    });
  }

 private:
  template <typename Body>
  void each_plane(const WorkerScratch& workers, std::int64_t batch, const Body& body) const {
    workers.for_each(batch * pooling_.channels, grain_of(pooling_.plane(), kCheapPart),
                     [&](std::int64_t begin, std::int64_t end, int) { body(begin, end - begin); });
  }

  Pooling pooling_;
  bool marked_;
};

}  // namespace

Created create_max_pool2d(JsonObject& attributes, std::span<const Shape> inputs) {
  MUSTER_TRY(const Pooling pooling, read_pooling("max_pool2d", attributes, inputs[0]));
  OpPlan plan{.output = pooling.output()};
  MUSTER_TRY(const std::int64_t size, element_count(plan.output));
  const bool marked = pooling.pool.kernel_height * pooling.pool.kernel_width <= kernels::kPoolMarks;
  if (marked) plan.saved_per_example = (size + 3) / 4;
  return std::make_unique<MaxPool2d>(std::move(plan), pooling, marked);
}

}  // namespace muster::ops
