#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "core/graph/initializers.h"
#include "core/graph/op_support/products.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// y = x W^T + b over the last dimension, W [units, in] and b [units] as torch.nn.Linear has them,
// and as "init" says its start (initializers.h): by default both uniform in +-1/sqrt(in).
class Dense final : public Op {
 public:
  Dense(OpPlan plan, std::int64_t in, std::int64_t units, std::int64_t rows, bool bias,
        std::string init)
      : Op(std::move(plan)),
        in_(in),
        units_(units),
        rows_(rows),
        bias_(bias),
        init_(std::move(init)) {}

  Json attributes() const override { return {{"units", units_}, {"bias", bias_}, {"init", init_}}; }

  std::int64_t multiply_adds() const override { return rows_ * in_ * units_; }

  void forward(const Forward& io) const override {
    dense_forward(io.workers, sizes(io.batch), io.inputs[0].data(), io.parameters[0].data(),
                  bias_ ? io.parameters[1].data() : nullptr, io.output.data());
  }

  void backward(const Backward& io) const override {
    const DenseSizes s = sizes(io.batch);
    const float* dy = io.doutput.data();
    dense_weight_gradient(io.workers, s, dy, io.inputs[0].data(), io.dparameters[0].data(),
                          io.accumulate);
    if (bias_) dense_bias_gradient(s, dy, io.dparameters[1].data(), io.accumulate);
    if (!io.dinputs[0].empty()) {
      dense_input_gradient(io.workers, s, dy, io.parameters[0].data(), io.dinputs[0].data());
    }
  }

 private:
  DenseSizes sizes(std::int64_t batch) const {
    return {.rows = batch * rows_, .in = in_, .out = units_};
  }

  std::int64_t in_;
  std::int64_t units_;
  std::int64_t rows_;  // of one example: the product of all dimensions but the last
  bool bias_;
  std::string init_;
};

}  // namespace

Created create_dense(JsonObject& attributes, std::span<const Shape> inputs) {
  const std::int64_t units = attributes.integer("units", {1, std::int64_t{1} << 31});
  const bool bias = attributes.boolean("bias", true);
  const WeightInit init = WeightInit::read(attributes);
  const Shape& input = inputs[0];
  if (input.empty()) {
    return Error{ErrorCode::kInvalidArgument, "dense wants at least one dimension, got []"};
  }
  const std::int64_t in = input.back();
  MUSTER_TRY(const std::int64_t size, element_count(input));
  OpPlan plan{.output = input, .scratch_per_worker = kProductScratch};
  plan.output.back() = units;
  plan.parameters.push_back(
      {.name = "weight", .shape = {units, in}, .init = init.weight(in, units)});
  if (bias) plan.parameters.push_back({.name = "bias", .shape = {units}, .init = init.bias(in)});
  return std::make_unique<Dense>(std::move(plan), in, units, size / in, bias, init.name());
}

}  // namespace muster::ops
