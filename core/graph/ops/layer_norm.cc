#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// Layer normalisation (Ba, Kiros and Hinton 2016) over the trailing dimensions `normalized_shape`,
// as torch.nn.LayerNorm: y = (x - mean) / sqrt(var + eps) * weight + bias, var without Bessel's
// correction.
//
//   "normalized_shape": the last dimension
//   "eps": 1e-5, "affine": true
class LayerNorm final : public Op {
 public:
  LayerNorm(OpPlan plan, Shape normalized, std::int64_t rows, std::int64_t width, double eps,
            bool affine)
      : Op(std::move(plan)),
        normalized_(std::move(normalized)),
        rows_(rows),
        width_(width),
        eps_(eps),
        affine_(affine) {}

  Json attributes() const override {
    return {{"normalized_shape", normalized_}, {"eps", eps_}, {"affine", affine_}};
  }

  // saved: mean and 1 / sqrt(var + eps), for each row.
  void forward(const Forward& io) const override {
    const kernels::Table& fast = kernels::best();
    const float* weight = affine_ ? io.parameters[0].data() : nullptr;
    const float* bias = affine_ ? io.parameters[1].data() : nullptr;
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) {
        const float* x = io.inputs[0].data() + row * width_;
        double mean = 0;
        double squares = 0;
        fast.moments(width_, x, &mean, &squares);
        const double var = squares / static_cast<double>(width_);
        float* saved = io.saved.data() + 2 * row;
        saved[0] = static_cast<float>(mean);
        saved[1] = static_cast<float>(1.0 / std::sqrt(var + eps_));
        fast.normalise_row(width_, saved[0], saved[1], weight, bias, x,
                           io.output.data() + row * width_);
      }
    };
    io.workers.for_each(io.batch * rows_, grain_of(2 * width_, kCheapPart), body);
  }

  // With g = dy * weight and h = (x - mean) * scale: dx = scale (g - mean(g) - h mean(g h)).
  void backward(const Backward& io) const override {
    const kernels::Table& fast = kernels::best();
    const float* weight = affine_ ? io.parameters[0].data() : nullptr;
    const std::int64_t rows = io.batch * rows_;
    if (!io.dinputs[0].empty()) {
      const auto body = [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t row = begin; row < end; ++row) {
          const float* saved = io.saved.data() + 2 * row;
          const std::int64_t at = row * width_;
          fast.normalise_row_gradient(width_, saved[0], saved[1], weight, io.inputs[0].data() + at,
                                      io.doutput.data() + at, io.dinputs[0].data() + at);
        }
      };
      io.workers.for_each(rows, grain_of(3 * width_, kCheapPart), body);
    }
    if (!affine_) return;
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      fast.normalise_row_columns(rows, width_, begin, end, io.saved.data(), io.inputs[0].data(),
                                 io.doutput.data(), io.dparameters[0].data(),
                                 io.dparameters[1].data(), io.accumulate);
    };
    // A multiple of the columns that it takes at a time.
    io.workers.for_each(width_, (grain_of(2 * rows, kCheapPart) + 31) / 32 * 32, body);
  }

 private:
  Shape normalized_;
  std::int64_t rows_;  // of one example
  std::int64_t width_;
  double eps_;
  bool affine_;
};

Result<Shape> read_normalized_shape(JsonObject& attributes, const Shape& input) {
  const Json* json = attributes.find("normalized_shape");
  if (json == nullptr) {
    if (input.empty()) return Shape{};
    return Shape{input.back()};
  }
  Shape shape;
  bool fits = json->is_array() && !json->empty() && json->size() <= input.size();
  for (std::size_t i = 0; fits && i < json->size(); ++i) {
    fits = (*json)[i].is_number_integer();
    if (fits) shape.push_back((*json)[i].get<std::int64_t>());
  }
  if (fits) fits = std::equal(shape.rbegin(), shape.rend(), input.rbegin());
  if (!fits) {
    return Error{ErrorCode::kInvalidArgument,
                 "layer_norm got the normalized_shape " +
                     (shape.empty() ? describe(*json) : to_string(shape)) +
                     ", wanted the end of the input's shape " + to_string(input)};
  }
  return shape;
}

}  // namespace

Created create_layer_norm(JsonObject& attributes, std::span<const Shape> inputs) {
  MUSTER_TRY(Shape normalized, read_normalized_shape(attributes, inputs[0]));
  const double eps = attributes.number("eps", 1e-5, {1e-12, 1.0});
  const bool affine = attributes.boolean("affine", true);
  MUSTER_TRY(const std::int64_t width, element_count(normalized));
  MUSTER_TRY(const std::int64_t size, element_count(inputs[0]));
  OpPlan plan{.output = inputs[0], .parameters = {}, .saved_per_example = 2 * (size / width)};
  if (affine) {
    plan.parameters = {{.name = "weight", .shape = normalized, .init = {.value = 1.0}},
                       {.name = "bias", .shape = normalized, .init = {.value = 0.0}}};
  }
  return std::make_unique<LayerNorm>(std::move(plan), std::move(normalized), size / width, width,
                                     eps, affine);
}

}  // namespace muster::ops
