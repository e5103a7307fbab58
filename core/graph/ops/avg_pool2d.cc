#include "core/graph/op_support/loops.h"
#include "core/graph/op_support/pooling.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// The mean of each window, as torch.nn.AvgPool2d. Attributes: those of pooling.h, and
//
//   "count_include_pad": true    whether zeros of the padding count in the divisor
class AvgPool2d final : public Op {
 public:
  AvgPool2d(OpPlan plan, const Pooling& pooling) : Op(std::move(plan)), pooling_(pooling) {}

  Json attributes() const override {
    Json json = to_json(pooling_.window);
    json["count_include_pad"] = pooling_.pool.count_include_pad;
    return json;
  }

  void forward(const Forward& io) const override {
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      kernels::best().avg_pool(pooling_.pool, end - begin,
                               io.inputs[0].data() + begin * pooling_.plane(),
                               io.output.data() + begin * pooling_.positions());
    };
    io.workers.for_each(io.batch * pooling_.channels, grain(), body);
  }

  void backward(const Backward& io) const override {
    if (io.dinputs[0].empty()) return;
    const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
      kernels::best().avg_pool_gradient(pooling_.pool, end - begin,
                                        io.doutput.data() + begin * pooling_.positions(),
                                        io.dinputs[0].data() + begin * pooling_.plane(),
                                        io.workers.of(worker, pooling_.pool.out_width));
    };
    io.workers.for_each(io.batch * pooling_.channels, grain(), body);
  }

 private:
  std::int64_t grain() const { return grain_of(pooling_.plane(), kDearPart); }

  Pooling pooling_;
};

}  // namespace

Created create_avg_pool2d(JsonObject& attributes, std::span<const Shape> inputs) {
  const bool count_include_pad = attributes.boolean("count_include_pad", true);
  MUSTER_TRY(Pooling pooling, read_pooling("avg_pool2d", attributes, inputs[0]));
  pooling.pool.count_include_pad = count_include_pad;
  OpPlan plan{.output = pooling.output(), .scratch_per_worker = pooling.pool.out_width};
  return std::make_unique<AvgPool2d>(std::move(plan), pooling);
}

}  // namespace muster::ops
