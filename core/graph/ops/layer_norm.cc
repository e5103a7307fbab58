#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// Layer normalisation (Ba, Kiros and Hinton 2016) over the trailing dimensions `normalized_shape`:
// y = (x - mean) / sqrt(var + eps) * weight + bias, var without Bessel's correction. Sums are in
// double.
class LayerNorm final : public Op {
 public:
  LayerNorm(OpPlan plan, Shape normalized, std::int64_t width, double eps, bool affine)
      : Op(std::move(plan)),
        normalized_(std::move(normalized)),
        width_(static_cast<std::size_t>(width)),
        eps_(eps),
        affine_(affine) {}

  Json attributes() const override {
    return {{"normalized_shape", normalized_}, {"eps", eps_}, {"affine", affine_}};
  }

  // saved: mean and 1 / sqrt(var + eps), for each row.
  void forward(const Forward& io) const override {
    const double n = static_cast<double>(width_);
    for (std::size_t row = 0; row < io.output.size() / width_; ++row) {
      const float* x = io.inputs[0].data() + row * width_;
      float* y = io.output.data() + row * width_;
      double sum = 0;
      for (std::size_t i = 0; i < width_; ++i) sum += x[i];
      const double mean = sum / n;
      double squares = 0;
      for (std::size_t i = 0; i < width_; ++i) squares += (x[i] - mean) * (x[i] - mean);
      const double scale = 1.0 / std::sqrt(squares / n + eps_);
      for (std::size_t i = 0; i < width_; ++i) {
        const float normal = static_cast<float>((x[i] - mean) * scale);
        y[i] = affine_ ? normal * io.parameters[0][i] + io.parameters[1][i] : normal;
      }
      io.saved[2 * row] = static_cast<float>(mean);
      io.saved[2 * row + 1] = static_cast<float>(scale);
    }
  }

  // With g = dy * weight and h = (x - mean) * scale: dx = scale (g - mean(g) - h mean(g h)).
  void backward(const Backward& io) const override {
    if (affine_ && !io.accumulate) {
      for (const std::span<float>& d : io.dparameters) std::fill(d.begin(), d.end(), 0.0F);
    }
    const double n = static_cast<double>(width_);
    for (std::size_t row = 0; row < io.doutput.size() / width_; ++row) {
      const float* x = io.inputs[0].data() + row * width_;
      const float* dy = io.doutput.data() + row * width_;
      const float mean = io.saved[2 * row];
      const float scale = io.saved[2 * row + 1];
      double sum_g = 0;
      double sum_gh = 0;
      for (std::size_t i = 0; i < width_; ++i) {
        const float h = (x[i] - mean) * scale;
        const float g = affine_ ? dy[i] * io.parameters[0][i] : dy[i];
        sum_g += g;
        sum_gh += static_cast<double>(g) * h;
        if (affine_) {
          io.dparameters[0][i] += dy[i] * h;
          io.dparameters[1][i] += dy[i];
        }
      }
      if (io.dinputs[0].empty()) continue;
      float* dx = io.dinputs[0].data() + row * width_;
      for (std::size_t i = 0; i < width_; ++i) {
        const float h = (x[i] - mean) * scale;
        const float g = affine_ ? dy[i] * io.parameters[0][i] : dy[i];
        dx[i] = static_cast<float>(scale * (g - sum_g / n - h * (sum_gh / n)));
      }
    }
  }

 private:
  Shape normalized_;
  std::size_t width_;
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
  return std::make_unique<LayerNorm>(std::move(plan), std::move(normalized), width, eps, affine);
}

}  // namespace muster::ops
