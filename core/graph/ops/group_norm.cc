#include <cmath>
#include <cstddef>
#include <string>

#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// Group normalisation (Wu and He 2018) of [channels, ...], as torch.nn.GroupNorm: within each group
// of channels y = (x - mean) / sqrt(var + eps) * weight + bias, weight and bias by channel, var
// without Bessel's correction.
//
//   "num_groups": 8    divides the channels
//   "eps": 1e-5, "affine": true
class GroupNorm final : public Op {
 public:
  struct Sizes {
    std::int64_t channels = 0;
    std::int64_t groups = 0;
    std::int64_t positions = 0;  // of one channel

    std::int64_t group_channels() const { return channels / groups; }
    std::int64_t group_floats() const { return group_channels() * positions; }
  };

  GroupNorm(OpPlan plan, const Sizes& sizes, double eps, bool affine)
      : Op(std::move(plan)), s_(sizes), eps_(eps), affine_(affine) {}

  Json attributes() const override {
    return {{"num_groups", s_.groups}, {"eps", eps_}, {"affine", affine_}};
  }

  // saved: mean and 1 / sqrt(var + eps), for each example and group.
  void forward(const Forward& io) const override {
    const kernels::Table& fast = kernels::best();
    const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
      float* mean = io.workers.of(worker, 3 * s_.group_channels());
      float* scale = mean + s_.group_channels();
      float* shift = scale + s_.group_channels();
      for (std::int64_t at = begin; at < end; ++at) {
        const float* x = io.inputs[0].data() + at * s_.group_floats();
        double group_mean = 0;
        double squares = 0;
        fast.moments(s_.group_floats(), x, &group_mean, &squares);
        const double var = squares / static_cast<double>(s_.group_floats());
        float* saved = io.saved.data() + 2 * at;
        saved[0] = static_cast<float>(group_mean);
        saved[1] = static_cast<float>(1.0 / std::sqrt(var + eps_));
        const std::int64_t first = at % s_.groups * s_.group_channels();
        for (std::int64_t c = 0; c < s_.group_channels(); ++c) {
          mean[c] = saved[0];
          scale[c] = affine_ ? saved[1] * io.parameters[0].data()[first + c] : saved[1];
          shift[c] = affine_ ? io.parameters[1].data()[first + c] : 0.0F;
        }
        fast.normalise(s_.group_channels(), s_.positions, mean, scale, shift, x,
                       io.output.data() + at * s_.group_floats());
      }
    };
    io.workers.for_each(io.batch * s_.groups, grain_of(2 * s_.group_floats(), kCheapPart), body);
  }

  // With g = dy * weight and h = (x - mean) * scale: dx = scale (g - mean(g) - h mean(g h)).
  // scratch: the sums of dy and dy (x - mean), for each example and channel.
  void backward(const Backward& io) const override {
    const kernels::Table& fast = kernels::best();
    float* all_sums = planned(io.scratch, 2 * io.batch * s_.channels);
    const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t place = at * s_.group_floats();
        float* sums = all_sums + 2 * at * s_.group_channels();
        float* mean = io.workers.of(worker, 4 * s_.group_channels());
        for (std::int64_t c = 0; c < s_.group_channels(); ++c) mean[c] = io.saved.data()[2 * at];
        fast.normalise_sums(s_.group_channels(), s_.positions, mean, io.inputs[0].data() + place,
                            io.doutput.data() + place, sums);
        if (!io.dinputs[0].empty()) input_gradient(io, at, sums, mean);
      }
    };
    io.workers.for_each(io.batch * s_.groups, grain_of(2 * s_.group_floats(), kCheapPart), body);
    if (affine_) parameter_gradients(io);
  }

 private:
  void input_gradient(const Backward& io, std::int64_t at, const float* sums, float* mean) const {
    float* of_dy = mean + s_.group_channels();
    float* of_x = of_dy + s_.group_channels();
    float* shift = of_x + s_.group_channels();
    const std::int64_t first = at % s_.groups * s_.group_channels();
    const double scale = static_cast<double>(io.saved.data()[2 * at + 1]);
    double sum_g = 0;
    double sum_product = 0;  // of g (x - mean)
    for (std::int64_t c = 0; c < s_.group_channels(); ++c) {
      const double weight = affine_ ? static_cast<double>(io.parameters[0].data()[first + c]) : 1.0;
      sum_g += weight * static_cast<double>(sums[2 * c]);
      sum_product += weight * static_cast<double>(sums[2 * c + 1]);
      of_dy[c] = static_cast<float>(weight * scale);
    }
    const double count = static_cast<double>(s_.group_floats());
    for (std::int64_t c = 0; c < s_.group_channels(); ++c) {
      of_x[c] = static_cast<float>(-scale * scale * scale * (sum_product / count));
      shift[c] = static_cast<float>(-scale * (sum_g / count));
    }
    const std::int64_t place = at * s_.group_floats();
    kernels::best().normalise_gradient(s_.group_channels(), s_.positions, mean, of_dy, of_x, shift,
                                       io.inputs[0].data() + place, io.doutput.data() + place,
                                       io.dinputs[0].data() + place);
  }

  void parameter_gradients(const Backward& io) const {
    const float* sums = io.scratch.data();
    for (std::int64_t c = 0; c < s_.channels; ++c) {
      double of_weight = 0;
      double of_bias = 0;
      for (std::int64_t n = 0; n < io.batch; ++n) {
        const float* here = sums + 2 * (n * s_.channels + c);
        const float* saved = io.saved.data() + 2 * (n * s_.groups + c / s_.group_channels());
        of_bias += static_cast<double>(here[0]);
        of_weight += static_cast<double>(here[1]) * static_cast<double>(saved[1]);
      }
      float& dweight = io.dparameters[0].data()[c];
      float& dbias = io.dparameters[1].data()[c];
      dweight = (io.accumulate ? dweight : 0.0F) + static_cast<float>(of_weight);
      dbias = (io.accumulate ? dbias : 0.0F) + static_cast<float>(of_bias);
    }
  }

  Sizes s_;
  double eps_;
  bool affine_;
};

}  // namespace

Created create_group_norm(JsonObject& attributes, std::span<const Shape> inputs) {
  GroupNorm::Sizes sizes;
  sizes.groups = attributes.integer("num_groups", {1, std::int64_t{1} << 31});
  const double eps = attributes.number("eps", 1e-5, {1e-12, 1.0});
  const bool affine = attributes.boolean("affine", true);
  const Shape& input = inputs[0];
  if (!attributes.ok() || input.empty() || input[0] % sizes.groups != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "group_norm got num_groups " + std::to_string(sizes.groups) +
                     ", wanted a divisor of the channels, the first dimension of " +
                     to_string(input)};
  }
  MUSTER_TRY(const std::int64_t size, element_count(input));
  sizes.channels = input[0];
  sizes.positions = size / input[0];
  OpPlan plan{.output = input,
              .saved_per_example = 2 * sizes.groups,
              .scratch_per_example = 2 * sizes.channels,
              .scratch_per_worker = 4 * sizes.group_channels()};
  if (affine) {
    plan.parameters = {{.name = "weight", .shape = {sizes.channels}, .init = {.value = 1.0}},
                       {.name = "bias", .shape = {sizes.channels}, .init = {.value = 0.0}}};
  }
  return std::make_unique<GroupNorm>(std::move(plan), sizes, eps, affine);
}

}  // namespace muster::ops
