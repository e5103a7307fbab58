#include <algorithm>
#include <cstddef>
#include <string>

#include "core/graph/initializers.h"
#include "core/graph/op_support/image.h"
#include "core/graph/op_support/loops.h"
#include "core/graph/op_support/products.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

using kernels::Conv;

// y[o] = bias[o] + sum over c, i, j of weight[o, c, i, j] x[c, row stride + i, column stride + j]
// on [channels, height, width], as torch.nn.Conv2d: a cross-correlation, padded with zeros. With
// groups, each group of filters sees its own group of channels; as many groups as channels is a
// depthwise convolution.
class Conv2d final : public Op {
 public:
  Conv2d(OpPlan plan, const Conv& conv, std::int64_t groups, bool bias, Json attributes)
      : Op(std::move(plan)),
        conv_(conv),
        groups_(groups),
        bias_(bias),
        attributes_(std::move(attributes)) {}

  Json attributes() const override { return attributes_; }

  std::int64_t multiply_adds() const override {
    return groups_ * conv_.out_channels * conv_.taps() * conv_.positions();
  }

  void forward(const Forward& io) const override {
    const kernels::Table& table = kernels::best();
    const std::int64_t weights = conv_.out_channels * conv_.taps();
    float* packed = planned(io.scratch, groups_ * conv_packed_size(conv_));
    for (std::int64_t g = 0; g < groups_; ++g) {
      table.conv_pack_forward(conv_, io.parameters[0].data() + g * weights,
                              packed + g * conv_packed_size(conv_));
    }
    io.workers.for_each(io.batch * groups_, 1, [&](std::int64_t at, std::int64_t, int worker) {
      const std::int64_t g = at % groups_;
      const float* bias = bias_ ? io.parameters[1].data() + g * conv_.out_channels : nullptr;
      table.conv_forward(conv_, packed + g * conv_packed_size(conv_), bias,
                         io.inputs[0].data() + at * input_size(),
                         io.output.data() + at * output_size(),
                         io.workers.of(worker, conv_scratch(conv_)));
    });
  }

  void backward(const Backward& io) const override {
    weight_gradient(io);
    if (bias_) bias_gradient(io);
    if (!io.dinputs[0].empty()) input_gradient(io);
  }

 private:
  // Of one group in one example. Examples hold their groups one after another, so group g of
  // example e is the (e * groups + g)-th of its kind.
  std::int64_t input_size() const { return conv_.in_channels * conv_.height * conv_.width; }
  std::int64_t output_size() const { return conv_.out_channels * conv_.positions(); }

  // Workers share out the taps, so each element is summed by one worker over all examples in order.
  void weight_gradient(const Backward& io) const {
    const kernels::Table& table = kernels::best();
    const std::int64_t taps = conv_.taps();
    const std::int64_t weights = conv_.out_channels * taps;
    const std::int64_t part = (taps + io.workers.count() - 1) / io.workers.count();
    const std::int64_t part_taps = (part + 7) / 8 * 8;
    const std::int64_t parts = (taps + part_taps - 1) / part_taps;
    float* sums = planned(io.scratch, groups_ * weights);
    table.fill(groups_ * weights, 0, sums);
    io.workers.for_each(groups_ * parts, 1, [&](std::int64_t at, std::int64_t, int worker) {
      const std::int64_t g = at / parts;
      const std::int64_t begin = at % parts * part_taps;
      const std::int64_t end = std::min(begin + part_taps, taps);
      for (std::int64_t e = 0; e < io.batch; ++e) {
        const std::int64_t place = e * groups_ + g;
        table.conv_weight_gradient(conv_, begin, end, io.inputs[0].data() + place * input_size(),
                                   io.doutput.data() + place * output_size(), sums + g * weights,
                                   io.workers.of(worker, conv_scratch(conv_)));
      }
    });
    for (std::int64_t g = 0; g < groups_; ++g) {
      table.transpose(taps, conv_.out_channels, sums + g * weights,
                      io.dparameters[0].data() + g * weights, io.accumulate);
    }
  }

  void bias_gradient(const Backward& io) const {
    const kernels::Table& table = kernels::best();
    const std::int64_t filters = groups_ * conv_.out_channels;
    const std::int64_t positions = conv_.positions();
    io.workers.for_each(filters, std::max<std::int64_t>(1, filters / io.workers.count()),
                        [&](std::int64_t begin, std::int64_t end, int) {
                          for (std::int64_t o = begin; o < end; ++o) {
                            double sum = 0;
                            for (std::int64_t e = 0; e < io.batch; ++e) {
                              sum += table.sum(positions,
                                               io.doutput.data() + (e * filters + o) * positions);
                            }
                            float& db = io.dparameters[1][static_cast<std::size_t>(o)];
                            db = (io.accumulate ? db : 0.0F) + static_cast<float>(sum);
                          }
                        });
  }

  void input_gradient(const Backward& io) const {
    const kernels::Table& table = kernels::best();
    const std::int64_t weights = conv_.out_channels * conv_.taps();
    float* packed = planned(io.scratch, groups_ * conv_packed_size(conv_));
    for (std::int64_t g = 0; g < groups_; ++g) {
      table.conv_pack_backward(conv_, io.parameters[0].data() + g * weights,
                               packed + g * conv_packed_size(conv_));
    }
    io.workers.for_each(io.batch * groups_, 1, [&](std::int64_t at, std::int64_t, int worker) {
      table.conv_input_gradient(conv_, packed + at % groups_ * conv_packed_size(conv_),
                                io.doutput.data() + at * output_size(),
                                io.dinputs[0].data() + at * input_size(),
                                io.workers.of(worker, conv_scratch(conv_)));
    });
  }

  Conv conv_;  // of one group
  std::int64_t groups_;
  bool bias_;
  Json attributes_;
};

}  // namespace

// {"op": "conv2d", "filters": 32, "kernel": 5, "stride": 1, "padding": "same", "groups": 1,
//  "bias": true, "init": "pytorch"}. kernel and stride are a number or [height, width]; padding is
//  "valid" (none),
// "same" (ceil(size / stride) positions, what is odd goes below and to the right) or zeros on both
// sides as a number or [height, width].
Created create_conv2d(JsonObject& attributes, std::span<const Shape> inputs) {
  const Shape& input = inputs[0];
  const std::int64_t filters = attributes.integer("filters", {1, 1 << 20});
  const Window window = read_window(attributes, false);
  const std::int64_t groups = attributes.integer("groups", 1, {1, 1 << 20});
  const bool bias = attributes.boolean("bias", true);
  const WeightInit init = WeightInit::read(attributes);
  if (!attributes.ok()) return attributes.finish().error();
  MUSTER_TRY(const ImageWindows windows, place_windows("conv2d", input, window));
  const std::int64_t channels = input[0];
  if (channels % groups != 0 || filters % groups != 0) {
    return Error{ErrorCode::kInvalidArgument, "conv2d got " + std::to_string(groups) +
                                                  " groups for " + std::to_string(channels) +
                                                  " channels and " + std::to_string(filters) +
                                                  " filters, wanted a number that divides both"};
  }
  const Conv conv{.in_channels = channels / groups,
                  .height = input[1],
                  .width = input[2],
                  .out_channels = filters / groups,
                  .out_height = windows.out_height,
                  .out_width = windows.out_width,
                  .kernel_height = window.kernel[0],
                  .kernel_width = window.kernel[1],
                  .stride_height = window.stride[0],
                  .stride_width = window.stride[1],
                  .pad_top = windows.pad_top,
                  .pad_left = windows.pad_left,
                  .padded_height = windows.padded_height,
                  .padded_width = windows.padded_width};
  const Shape weight{filters, conv.in_channels, conv.kernel_height, conv.kernel_width};
  MUSTER_TRY(const std::int64_t weights, element_count(weight));
  const std::int64_t fan_out = conv.out_channels * conv.kernel_height * conv.kernel_width;
  OpPlan plan{.output = {filters, conv.out_height, conv.out_width},
              .parameters = {{.name = "weight",
                              .shape = weight,
                              .init = init.weight(conv.taps(), fan_out)}},
              .scratch_fixed = std::max(groups * conv_packed_size(conv), weights),
              .scratch_per_worker = conv_scratch(conv)};
  if (bias)
    plan.parameters.push_back({.name = "bias", .shape = {filters}, .init = init.bias(conv.taps())});
  Json written = to_json(window);
  written["filters"] = filters;
  written["groups"] = groups;
  written["bias"] = bias;
  written["init"] = init.name();
  return std::make_unique<Conv2d>(std::move(plan), conv, groups, bias, std::move(written));
}

}  // namespace muster::ops
